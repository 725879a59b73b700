// Package oldtables reads the chains that the old iptables (iptables-legacy) has in the
// kernel, which nftables does not show. It writes nothing.
package oldtables

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Table is a table of one IP version.
type Table struct {
	Command string   // that lists it, as iptables-legacy
	Chains  []string // of users, sorted
	Unread  error    // why these are not known
}

// family is the interface of one IP version.
type family struct {
	names, command string
	domain, level  int
}

var families = []family{
	{"ip_tables_names", "iptables-legacy", unix.AF_INET, unix.SOL_IP},
	{"ip6_tables_names", "ip6tables-legacy", unix.AF_INET6, unix.SOL_IPV6},
}

// Read looks at a table (nat, filter) of both IP versions, by what the kernel tells below
// procNet. What cannot be read is said, and not taken for empty.
func Read(procNet, table string) (list []Table) {
	for _, f := range families {
		chains, err := f.chains(procNet, table)
		list = append(list, Table{f.command, chains, err})
	}
	return list
}

// chains asks for a table only where the kernel names it, for asking loads the module.
// Any socket of the family will do, and CAP_NET_ADMIN: iptables itself opens a raw one.
func (f family) chains(procNet, table string) ([]string, error) {
	list, err := os.ReadFile(filepath.Join(procNet, f.names))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // no such kernel interface
	}
	if err != nil || !slices.Contains(tables(list), table) {
		return nil, err
	}
	fd, err := unix.Socket(f.domain, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open a socket: %w", err)
	}
	defer unix.Close(fd)
	const attempts = 5 // it may grow between the two questions
	for range attempts {
		var entries []byte
		if entries, err = f.entries(fd, table); err == nil {
			return names(entries), nil
		}
		if !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	return nil, err
}

// tables are the names in a list of the kernel's, one on each line.
func tables(list []byte) (names []string) {
	for line := range bytes.Lines(list) {
		names = append(names, string(bytes.TrimSpace(line)))
	}
	return names
}

// names finds chains in a table as it lies in the kernel: each begins with an entry whose
// target is ERROR and has the chain's name (struct xt_error_target of linux/netfilter/x_tables.h).
// The table's own end is such an entry, of the name ERROR.
func names(entries []byte) (list []string) {
	const targetName, errorName, most = 2, 32, 30
	target := append([]byte("ERROR"), 0)
	for {
		at := bytes.Index(entries, target)
		if at < 0 {
			slices.Sort(list)
			return slices.Compact(list)
		}
		if from := at - targetName + errorName; from < len(entries) {
			name, _, ended := bytes.Cut(entries[from:min(from+most, len(entries))], []byte{0})
			if ended && len(name) > 0 && string(name) != "ERROR" {
				list = append(list, string(name))
			}
		}
		entries = entries[at+len(target):]
	}
}

// entries reads a table as it lies in the kernel: IPT_SO_GET_INFO and IPT_SO_GET_ENTRIES
// of linux/netfilter_ipv4/ip_tables.h, and the same for IPv6.
func (f family) entries(fd int, table string) ([]byte, error) {
	const getInfo, getEntries = 64, 65
	const infoLen, sizeAt, headLen, headSizeAt = 84, 80, 40, 32
	info := make([]byte, infoLen)
	copy(info, table)
	if err := getsockopt(fd, f.level, getInfo, info); err != nil {
		return nil, fmt.Errorf("ask for its size: %w", err)
	}
	size := *(*uint32)(unsafe.Pointer(&info[sizeAt]))
	const most = 256 << 20
	if size > most {
		return nil, fmt.Errorf("%d bytes are more than is read", size)
	}
	entries := make([]byte, headLen+int(size))
	copy(entries, table)
	*(*uint32)(unsafe.Pointer(&entries[headSizeAt])) = size
	if err := getsockopt(fd, f.level, getEntries, entries); err != nil {
		return nil, fmt.Errorf("read %d bytes: %w", size, err)
	}
	return entries[headLen:], nil
}

func getsockopt(fd, level, opt int, buf []byte) error {
	n := uint32(len(buf))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(opt),
		uintptr(unsafe.Pointer(&buf[0])), uintptr(unsafe.Pointer(&n)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
