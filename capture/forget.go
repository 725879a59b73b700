package capture

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
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

// quietLooks is how many looks in a row have to find none: Envoy dials again where it had
// not reached whom it dialled.
const quietLooks = 2

// errUnseen: this kernel, or this process, does not tell of sockets, now or later.
var errUnseen = errors.New("the kernel does not tell of sockets (sock_diag)")

// names are addresses in which Envoy dialled, and the mark with which it does.
type names struct {
	mark  uint32
	pods  []netip.Prefix // this node's: Envoy keeps the sources of no others
	known bool           // pods is all of them; else whose a socket is nobody knows for sure, and it is waited for
}

// clientsNames reads, before the rules go, in whose names Envoy dialled. A cleanup that was
// ended after that, and one after another's flush, know it no more.
func (c *Capture) clientsNames() names {
	n := names{mark: c.cfg.Own(), pods: slices.Clone(c.cfg.PodCIDRs)}
	earlier, err := c.Earlier()
	if err == nil && earlier.Rules {
		n.pods, n.known = append(n.pods, earlier.Pods...), true
	}
	return n
}

// has reports whether a socket is Envoy's in a pod's name: its address is in a range of pods
// and none of the node's. Old kernels do not say the marks of what is closed, which then has
// its own state or that of its other half (tw_substate of linux/tcp.h); where the pods are not
// known, such a one of somebody else's is waited for at worst.
func (n names) has(s sockdiag.Socket, own []netip.Addr) bool {
	closed := s.Inode == 0 && s.Mark == 0 && s.State&(sockdiag.TimeWait|sockdiag.FinWait2) != 0
	if !closed && s.Mark != n.mark {
		return false
	}
	ip := s.Local.Addr()
	if slices.Contains(own, ip) || ip.IsLoopback() {
		return false
	}
	return !n.known || slices.ContainsFunc(n.pods, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// forgetClients ends what Envoy holds in clients' names, and waits until the kernel has
// forgotten the last of it. Without the rules nothing leads there any more; but with early
// demux the kernel would drop the answers to a pod that dials the same endpoint from the
// same port, for as long as it remembers one. The error is errUnseen, or says what was in
// the way when ctx ended.
func forgetClients(ctx context.Context, n names) error {
	if n.known && len(n.pods) == 0 {
		return nil
	}
	conn, err := sockdiag.Dial()
	if err != nil {
		return fmt.Errorf("%w: %w", errUnseen, err)
	}
	defer conn.Close()
	return awaitNone(ctx, func() (int, error) { return n.end(conn) })
}

// awaitNone looks again and again until enough looks in a row found none.
func awaitNone(ctx context.Context, look func() (left int, err error)) error {
	tick := time.NewTicker(forgetEvery)
	defer tick.Stop()
	for quiet := 0; ; {
		left, err := look()
		quiet++
		if left > 0 || err != nil {
			quiet = 0
		}
		if quiet == quietLooks || errors.Is(err, errUnseen) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		if ctx.Err() != nil { // also where a slow look let the tick come first
			return unfinished(ctx, left, err)
		}
	}
}

// unfinished says what was in the way when ctx ended.
func unfinished(ctx context.Context, left int, err error) error {
	if left > 0 {
		return errors.Join(fmt.Errorf("%d connections of Envoy's in the names of pods are there still: end Envoy, and run gridmesh-agent cleanup again", left), err)
	}
	return errors.Join(fmt.Errorf("it was not seen that none of Envoy's connections in the names of pods is left: run gridmesh-agent cleanup again: %w", ctx.Err()), err)
}

// end looks what there is in clients' names, ends it, and says how much there was. What the
// kernel does not end is waited for.
func (n names) end(conn *sockdiag.Conn) (left int, err error) {
	list, err := n.held(conn)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, s := range list {
		if !n.known && (s.Mark != n.mark || s.State&sockdiag.TimeWait == 0) {
			continue
		}
		if err := conn.Reset(s); err != nil && !vanished(err) && !errors.Is(err, unix.EOPNOTSUPP) {
			errs = append(errs, fmt.Errorf("end Envoy's connection to %s: %w", s.Peer, err))
		}
	}
	return len(list), errors.Join(errs...)
}

// held are the sockets of TCP, open and closed, that Envoy has in clients' names.
func (n names) held(conn *sockdiag.Conn) (list []sockdiag.Socket, err error) {
	all, err := conn.Both(unix.IPPROTO_TCP, sockdiag.Connected, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) { // it has no inet_diag
		err = fmt.Errorf("%w: %w", errUnseen, err)
	}
	if err != nil {
		return nil, err
	}
	own, err := links.Addresses(0)
	if err != nil { // torn as well: one that is missing would be taken for a pod's
		return nil, err
	}
	return slices.DeleteFunc(all, func(s sockdiag.Socket) bool { return !n.has(s, own) }), nil
}
