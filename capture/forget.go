package capture

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/links"
	"github.com/gridmesh/gridmesh/internal/sockdiag"
)

// timeWait is how long a kernel that ends no such socket keeps one that was closed, and
// some more (TCP_TIMEWAIT_LEN of linux/tcp.h); forgetEvery, how often it is looked then.
const (
	timeWait    = 62 * time.Second
	forgetEvery = 200 * time.Millisecond
)

// quietLooks is how many looks have to find none: Envoy dials again where it had not
// reached whom it dialled.
const quietLooks = 2

// forgetClients ends what Envoy holds in clients' names, and waits until the kernel has
// forgotten the last of it. Without the rules nothing leads there any more; but with early
// demux the kernel would drop the answers to a pod that dials the same endpoint from the
// same port, for as long as it remembers one. An error is that this could not be seen.
func (c *Capture) forgetClients() error {
	conn, err := sockdiag.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	for until, quiet := time.Now().Add(timeWait), 0; ; time.Sleep(forgetEvery) {
		left, err := c.inClientsNames(conn)
		if err != nil {
			return err
		}
		if quiet++; len(left) > 0 {
			quiet = 0
		}
		if quiet == quietLooks {
			return nil
		}
		for _, s := range left {
			if err := conn.Reset(s); err != nil && !vanished(err) && !errors.Is(err, unix.EOPNOTSUPP) {
				return fmt.Errorf("end Envoy's connection to %s: %w", s.Peer, err)
			}
		}
		if time.Now().After(until) {
			return fmt.Errorf("%d connections of Envoy's are in the names of pods: end Envoy", len(left))
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
	own, err := links.Addresses(0)
	if err != nil { // torn as well: one that is missing would be taken for a pod's
		return nil, err
	}
	for _, s := range all {
		// Old kernels do not say the marks of what is closed.
		ours := s.Mark == c.cfg.Own() || s.Mark == 0 && s.State == sockdiag.TimeWait
		if ours && !slices.Contains(own, s.Local.Addr()) {
			list = append(list, s)
		}
	}
	return list, nil
}
