package nodelocal

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/sockdiag"
)

// CoreDNS's way: metrics are global, and the prometheus plugin serves them.
var others = promauto.NewGaugeVec(prometheus.GaugeOpts{
	Namespace: plugin.Namespace, Subsystem: pluginName, Name: "other_sockets",
	Help: "Sockets of other processes at an address of this server, each of which gets some of the questions.",
}, []string{"address"})

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
			if s.Local.Addr() == ip && !own[s.Inode] {
				found[netip.AddrPortFrom(ip, port)]++
			}
		}
	}
	return found, nil
}

// servers are the sockets of this network that serve a port, or with 0 any.
func servers(port uint16) ([]sockdiag.Socket, error) {
	conn, err := sockdiag.Dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	udp, err := conn.Both(unix.IPPROTO_UDP, sockdiag.Closed, port)
	if err != nil {
		return nil, err
	}
	tcp, err := conn.Both(unix.IPPROTO_TCP, sockdiag.Listen, port)
	return append(udp, tcp...), err
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
