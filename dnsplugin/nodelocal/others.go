package nodelocal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/coredns/coredns/plugin"
	nl "github.com/mdlayher/netlink"
	"github.com/mdlayher/netlink/nlenc"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sys/unix"
)

// CoreDNS's way: metrics are global, and the prometheus plugin serves them.
var others = promauto.NewGaugeVec(prometheus.GaugeOpts{
	Namespace: plugin.Namespace, Subsystem: pluginName, Name: "other_sockets",
	Help: "Sockets of other processes at an address of this server, each of which gets some of the questions.",
}, []string{"address"})

// linux/sock_diag.h and linux/inet_diag.h.
const (
	sockDiagByFamily = 20
	diagReqLen       = 56
	diagMsgLen       = 72
	diagPortOffset   = 8 // of the own port in a request
	diagSportOffset  = 4 // of it in an answer
	diagSrcOffset    = 8 // of the own address in an answer
	diagInodeOffset  = 68
	stateListen      = 1 << 10
	stateClose       = 1 << 7 // of a socket of UDP that is connected to nobody
)

// shared counts the sockets of other processes at the addresses, and says where
// there are some: one that came after the start shares the port without a word.
func (n *node) shared() error {
	found, err := foreign(n.listening, n.port)
	if err != nil {
		return fmt.Errorf("look for other servers at the addresses: %w", err)
	}
	var where []string
	for _, at := range n.addresses() {
		others.WithLabelValues(at.String()).Set(float64(found[at]))
		if found[at] > 0 {
			where = append(where, at.String())
		}
	}
	if len(where) > 0 {
		return fmt.Errorf("other processes of this node answer at %s, too, and get some of the questions: stop them (%s); to see them: ss -lntup sport = :%d",
			strings.Join(where, " and "), suspects, n.port)
	}
	return nil
}

// forget ends the counting.
func (n *node) forget() {
	for _, at := range n.addresses() {
		others.DeleteLabelValues(at.String())
	}
}

func (n *node) addresses() (list []netip.AddrPort) {
	for _, ip := range n.listening {
		list = append(list, netip.AddrPortFrom(ip, n.port))
	}
	return list
}

// foreign counts sockets that would be given a question to one of the addresses,
// and that this process has not.
func foreign(list []netip.Addr, port uint16) (map[netip.AddrPort]int, error) {
	// Before and after: a server that reloads opens and closes sockets meanwhile.
	own := map[uint32]bool{}
	if err := ownSockets(own); err != nil {
		return nil, err
	}
	all, err := servers(port)
	if err != nil {
		return nil, err
	}
	if err := ownSockets(own); err != nil {
		return nil, err
	}
	found := map[netip.AddrPort]int{}
	for _, ip := range list {
		for _, s := range all {
			if s.ip == ip && !own[s.inode] {
				found[netip.AddrPortFrom(ip, port)]++
			}
		}
	}
	return found, nil
}

type socket struct {
	ip    netip.Addr
	port  uint16
	inode uint32
}

// servers are the sockets of this network that serve a port, or with 0 any.
func servers(port uint16) (all []socket, err error) {
	conn, err := nl.Dial(unix.NETLINK_SOCK_DIAG, nil)
	if err != nil {
		return nil, fmt.Errorf("open sock_diag: %w", err)
	}
	defer conn.Close()
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		for protocol, state := range map[byte]uint32{unix.IPPROTO_UDP: stateClose, unix.IPPROTO_TCP: stateListen} {
			some, err := socketsAt(conn, family, protocol, state, port)
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
	}
	return all, nil
}

// socketsAt are those of one family and protocol.
func socketsAt(conn *nl.Conn, family, protocol byte, states uint32, port uint16) ([]socket, error) {
	req := make([]byte, diagReqLen)
	req[0], req[1] = family, protocol
	nlenc.PutUint32(req[4:8], states)
	binary.BigEndian.PutUint16(req[diagPortOffset:], port)
	msgs, err := conn.Execute(nl.Message{Header: nl.Header{Type: sockDiagByFamily, Flags: nl.Request | nl.Dump}, Data: req})
	if err != nil {
		return nil, fmt.Errorf("list sockets: %w", err)
	}
	var list []socket
	for _, m := range msgs {
		if len(m.Data) < diagMsgLen {
			continue
		}
		length := 4
		if m.Data[0] == unix.AF_INET6 {
			length = 16
		}
		ip, _ := netip.AddrFromSlice(m.Data[diagSrcOffset : diagSrcOffset+length])
		list = append(list, socket{ip.Unmap(), binary.BigEndian.Uint16(m.Data[diagSportOffset:]), nlenc.Uint32(m.Data[diagInodeOffset:diagMsgLen])})
	}
	return list, nil
}

// ownSockets adds the inodes of this process's sockets.
func ownSockets(to map[uint32]bool) error {
	const dir = "/proc/self/fd"
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, fd := range list {
		name, err := os.Readlink(filepath.Join(dir, fd.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // closed meanwhile
		}
		if err != nil {
			return err
		}
		text, isSocket := strings.CutPrefix(name, "socket:[")
		if !isSocket {
			continue
		}
		inode, err := strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 32)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		to[uint32(inode)] = true
	}
	return nil
}
