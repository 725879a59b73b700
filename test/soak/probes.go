package soak

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

const (
	// probeEvery is how often each node and each pod sends. Clients wait for
	// answers, and dial a Service that nobody serves every few seconds: what is
	// open for the time of a dial would be seen by luck.
	probeEvery = 20 * time.Millisecond
	// markWithin is how long a packet may take to the border of its unit: a
	// neighbour may still be asked for, on a slow machine.
	markWithin = time.Minute
)

// unservedAddresses are Services' that no Service has a port of. A packet to
// one of them leaves its node only where nothing stops it.
var unservedAddresses = []netip.AddrPort{netip.MustParseAddrPort("10.96.200.1:9"), netip.MustParseAddrPort("[fd00:96::c801]:9")}

// prober sends packets to addresses that nobody serves from one namespace,
// all the while, and waits for nothing.
type prober struct {
	node, from string // as of a dial
	ns         *netlab.NS
	pod        bool
	sockets    []int // datagrams, by address
	rounds     atomic.Int64
	pause      atomic.Int64 // longest between the begins of two rounds, in ns
}

// probes are those of all nodes and of their pods.
type probes struct {
	list []*prober
	quit context.CancelFunc
	wg   sync.WaitGroup
}

func (s *Soak) openProbes() (*probes, error) {
	l := &probes{}
	for _, node := range s.world.Nodes() {
		l.list = append(l.list,
			&prober{node: node, from: "node " + node, ns: s.c.Nodes[node].NS},
			&prober{node: node, from: "pod " + node, ns: s.pods[node].ns, pod: true})
	}
	for _, p := range l.list {
		if err := p.open(); err != nil {
			return nil, fmt.Errorf("open sockets of %s: %w", p.from, err)
		}
	}
	return l, nil
}

func (p *prober) open() error {
	return p.ns.Do(func() error {
		for _, to := range unservedAddresses {
			fd, err := unix.Socket(familyOf(to.Addr()), unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			p.sockets = append(p.sockets, fd)
		}
		return nil
	})
}

// start begins to send, until stop.
func (l *probes) start(ctx context.Context, say func(string, ...any)) {
	ctx, l.quit = context.WithCancel(context.WithoutCancel(ctx))
	for _, p := range l.list {
		l.wg.Go(func() {
			if err := p.ns.Do(func() error { return p.run(ctx) }); err != nil {
				say("the probes of %s ended: %v", p.from, err)
			}
		})
	}
}

func (l *probes) stop() {
	l.quit()
	l.wg.Wait()
}

func (p *prober) run(ctx context.Context) error {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for last := time.Now(); ; {
		now := time.Now()
		p.pause.Store(max(p.pause.Load(), int64(now.Sub(last))))
		last = now
		if err := p.round(); err != nil {
			return err
		}
		p.rounds.Add(1)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// round sends the first packet of a connection, and a datagram, to every
// address. That they are refused is as it should be.
func (p *prober) round() error {
	for i, to := range unservedAddresses {
		fd, err := unix.Socket(familyOf(to.Addr()), unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		_ = unix.Connect(fd, sockaddr(to))
		_ = unix.Close(fd)
		p.send(i, to)
	}
	return nil
}

func (p *prober) send(socket int, to netip.AddrPort) {
	_ = unix.Sendto(p.sockets[socket], nil, unix.MSG_DONTWAIT, sockaddr(to))
}

// mark sends a datagram that every border counts and nothing stops.
func (p *prober) mark(i int) { p.send(i, netip.AddrPortFrom(marks(p.pod)[i], 9)) }

// marks are where a node's marks go, and where its pod's do: addresses of
// documentation, by family.
func marks(pod bool) []netip.Addr {
	last := byte(1)
	if pod {
		last = 2
	}
	return []netip.Addr{netip.AddrFrom4([4]byte{198, 51, 100, last}), netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 15: last})}
}

// markKey names a mark's counter at the border.
func markKey(node string, to netip.Addr) string { return node + " " + to.String() }

// arrived waits until marks that are sent now have been counted at every
// border. What was sent before them has been, too; and where none comes, what
// leaks is not seen.
func (s *Soak) arrived(within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	before, err := s.borders.marks()
	if err != nil {
		return err
	}
	err = wait.Until(ctx, func() error {
		now, err := s.borders.marks()
		if err != nil {
			return err
		}
		var missing error
		for _, p := range s.probes.list {
			for i, to := range marks(p.pod) {
				if key := markKey(p.node, to); now[key] == before[key] {
					p.mark(i)
					missing = fmt.Errorf("nothing of what %s sends to %s reaches the border of its unit: what leaks there is not seen", p.from, to)
				}
			}
		}
		return missing
	})
	if err != nil {
		return &Violation{Judge: "borders", Text: err.Error()}
	}
	return nil
}

// again waits until every prober of a node has sent once more, from its
// beginning to its end.
func (l *probes) again(ctx context.Context, node string) error {
	until := map[*prober]int64{}
	for _, p := range l.list {
		if p.node == node {
			until[p] = p.rounds.Load() + 2
		}
	}
	_, err := wait.For(ctx, "a round of probes from "+node, func() error {
		for p, n := range until {
			if p.rounds.Load() < n {
				return fmt.Errorf("%s has not sent", p.from)
			}
		}
		return nil
	})
	return err
}

// sent are the fewest rounds of any prober, and the longest pause of all.
func (l *probes) sent() (rounds int64, pause time.Duration) {
	fewest := slices.MinFunc(l.list, func(a, b *prober) int { return int(a.rounds.Load() - b.rounds.Load()) })
	for _, p := range l.list {
		pause = max(pause, time.Duration(p.pause.Load()))
	}
	return fewest.rounds.Load(), pause
}

func familyOf(ip netip.Addr) int {
	if ip.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

func sockaddr(to netip.AddrPort) unix.Sockaddr {
	if to.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
}
