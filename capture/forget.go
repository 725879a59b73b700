package capture

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/sockdiag"
)

// timeWait is how long a kernel that ends no such socket keeps one that was closed, and
// some more (TCP_TIMEWAIT_LEN of linux/tcp.h); forgetEvery, how often it is looked then.
const (
	timeWait    = 62 * time.Second
	forgetEvery = 500 * time.Millisecond
)

// forgetClients ends what Envoy holds in clients' names, and waits until the kernel has
// forgotten the last of it. Without the rules nothing leads there any more; but with early
// demux the kernel would drop the answers to a pod that dials the same endpoint from the
// same port, for as long as it remembers one.
func (c *Capture) forgetClients() error {
	conn, err := sockdiag.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	for until := time.Now().Add(timeWait); ; time.Sleep(forgetEvery) {
		left, err := c.inClientsNames(conn)
		if err != nil || len(left) == 0 {
			return err
		}
		unended := 0
		for _, s := range left {
			switch err := conn.Reset(s); {
			case err == nil, vanished(err):
			case errors.Is(err, unix.EOPNOTSUPP):
				unended++
			default:
				return fmt.Errorf("end Envoy's connection to %s: %w", s.Peer, err)
			}
		}
		if unended == 0 {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("%d connections of Envoy's in the names of pods are open, and this kernel ends none (CONFIG_INET_DIAG_DESTROY): end Envoy; until then some new connections of those pods get no answer", unended)
		}
	}
}

// inClientsNames are Envoy's sockets of TCP, open and closed, whose address is none of
// this node's.
func (c *Capture) inClientsNames(conn *sockdiag.Conn) (list []sockdiag.Socket, err error) {
	all, err := conn.Both(unix.IPPROTO_TCP, sockdiag.Connected, 0)
	if err != nil {
		return nil, err
	}
	own, err := ownAddresses()
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		if s.Mark&c.cfg.Mask == c.cfg.Own() && !own[s.Local.Addr()] {
			list = append(list, s)
		}
	}
	return list, nil
}

// ownAddresses are those of this network's links.
func ownAddresses() (map[netip.Addr]bool, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list the node's addresses: %w", err)
	}
	own := map[netip.Addr]bool{}
	for _, a := range addrs {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			own[prefix.Addr().Unmap()] = true
		}
	}
	return own, nil
}
