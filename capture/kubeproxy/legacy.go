package kubeproxy

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// legacyTables is the old interface of iptables, for one IP version.
type legacyTables struct {
	names, command string
	domain, level  int
}

var legacies = []legacyTables{
	{"ip_tables_names", "iptables-legacy", unix.AF_INET, unix.SOL_IP},
	{"ip6_tables_names", "ip6tables-legacy", unix.AF_INET6, unix.SOL_IPV6},
}

// OldTables is what the old iptables of one IP version holds, which nftables does not
// show.
type OldTables struct {
	Command string // that lists it, as iptables-legacy
	Holds   bool   // a chain of kube-proxy's
	Unread  error  // why that is not known
}

// Old looks at the old iptables of both IP versions, by what the kernel tells below
// procNet. What cannot be read is said, and not taken for empty.
func Old(procNet string) (list []OldTables) {
	for _, l := range legacies {
		holds, err := l.has(procNet, Chain)
		list = append(list, OldTables{l.command, holds, err})
	}
	return list
}

// has asks whether the nat table holds a chain. It is asked for only where the
// kernel names it, for asking loads the module. Any socket of the family will
// do, and CAP_NET_ADMIN: iptables itself opens a raw one.
func (l legacyTables) has(procNet, chain string) (bool, error) {
	list, err := os.ReadFile(filepath.Join(procNet, l.names))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil // no such kernel interface
	}
	if err != nil || !bytes.Contains(list, []byte("nat")) {
		return false, err
	}
	fd, err := unix.Socket(l.domain, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false, fmt.Errorf("open a socket: %w", err)
	}
	defer unix.Close(fd)
	const attempts = 5 // it may grow between the two questions
	for range attempts {
		var entries []byte
		if entries, err = l.entries(fd); err == nil {
			return bytes.Contains(entries, []byte(chain)), nil
		}
		if !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	return false, err
}

// entries reads the nat table as it lies in the kernel: IPT_SO_GET_INFO and
// IPT_SO_GET_ENTRIES of linux/netfilter_ipv4/ip_tables.h, and the same for IPv6.
func (l legacyTables) entries(fd int) ([]byte, error) {
	const getInfo, getEntries = 64, 65
	const infoLen, sizeAt, headLen, headSizeAt = 84, 80, 40, 32
	info := make([]byte, infoLen)
	copy(info, "nat")
	if err := getsockopt(fd, l.level, getInfo, info); err != nil {
		return nil, fmt.Errorf("ask for its size: %w", err)
	}
	size := *(*uint32)(unsafe.Pointer(&info[sizeAt]))
	const most = 256 << 20
	if size > most {
		return nil, fmt.Errorf("%d bytes are more than is read", size)
	}
	entries := make([]byte, headLen+int(size))
	copy(entries, "nat")
	*(*uint32)(unsafe.Pointer(&entries[headSizeAt])) = size
	if err := getsockopt(fd, l.level, getEntries, entries); err != nil {
		return nil, fmt.Errorf("read %d bytes: %w", size, err)
	}
	return entries, nil
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
