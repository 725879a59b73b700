package soak

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/soak/script"
	"github.com/gridmesh/gridmesh/topology"
)

const (
	// dialTimeout: a slow machine is no failure.
	dialTimeout = 20 * time.Second
	// otherTimeout is for Services that may have nobody to answer.
	otherTimeout = 2 * time.Second
	// nameTimeout is as long as glibc asks.
	nameTimeout = 10 * time.Second
	dialEvery   = 150 * time.Millisecond
	askEvery    = time.Second
)

// dial is one connection, or question.
type dial struct {
	node     string // from where
	from     string // "node a-1" or "pod a-1"
	to       netip.AddrPort
	udp      bool
	nodePort bool // to is an address of the node
	name     bool // a name was resolved, and nothing dialled
	began    time.Time
	ended    time.Time
	answered string // by whom
	err      error
}

func (d dial) String() string {
	what := "dialled " + d.to.String() + "/" + d.frontend().Protocol.String()
	if d.name {
		what = "asked for a name"
	}
	return fmt.Sprintf("%s %s at %s for %s: answer %q, error %v", d.from, what, d.began.Format("15:04:05.000"), d.ended.Sub(d.began).Round(time.Millisecond), d.answered, d.err)
}

// frontend is what was dialled, as topology has it.
func (d dial) frontend() topology.Frontend {
	f := topology.Frontend{Addr: d.to.Addr(), Port: d.to.Port(), Protocol: topology.TCP}
	if d.udp {
		f.Protocol = topology.UDP
	}
	if d.nodePort {
		f.Addr = netip.IPv4Unspecified()
	}
	return f
}

func (d dial) network() string {
	if d.udp {
		return "udp"
	}
	return "tcp"
}

// dials are what clients did since the last judgement.
type dials struct {
	mu   sync.Mutex
	list []dial
	quit context.CancelFunc
	wg   sync.WaitGroup
}

func (l *dials) add(d dial) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, d)
}

// take empties the list.
func (l *dials) take() []dial {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.list
	l.list = nil
	return list
}

// startDials lets every node and every pod of the steady app dial, until stop.
func (s *Soak) startDials(ctx context.Context) *dials {
	l := &dials{}
	ctx, l.quit = context.WithCancel(context.WithoutCancel(ctx))
	for _, node := range s.world.Nodes() {
		l.wg.Go(func() { s.client(ctx, l, node, "node "+node, s.c.Nodes[node].NS) })
		l.wg.Go(func() { s.client(ctx, l, node, "pod "+node, s.pods[node].ns) })
		l.wg.Go(func() { s.asker(ctx, l, node) })
	}
	for _, node := range s.twoPaths() {
		l.wg.Go(func() { s.explorer(ctx, l, node, "node "+node, s.c.Nodes[node].NS) })
		l.wg.Go(func() { s.explorer(ctx, l, node, "pod "+node, s.pods[node].ns) })
	}
	return l
}

// stop ends all clients, and waits for what is under way.
func (l *dials) stop() {
	l.quit()
	l.wg.Wait()
}

// client dials the steady app every other time, and all other Services in turn.
func (s *Soak) client(ctx context.Context, l *dials, node, from string, ns *netlab.NS) {
	others := s.others()
	for i := 0; ctx.Err() == nil; i++ {
		d := dial{node: node, from: from, to: s.steady, began: time.Now()}
		timeout := dialTimeout
		if i%2 == 1 {
			d.to, timeout = others[i/2%len(others)], otherTimeout
		}
		a, err := edge.Ask(ns, "tcp", d.to, timeout)
		d.ended, d.answered, d.err = time.Now(), a.Name, err
		l.add(d)
		select {
		case <-time.After(dialEvery):
		case <-ctx.Done():
		}
	}
}

// explorer dials in turn what Services may have besides their first port, which nodes with
// a kernel path serve all of.
func (s *Soak) explorer(ctx context.Context, l *dials, node, from string, ns *netlab.NS) {
	list := s.besides(node)
	for i := 0; ctx.Err() == nil; i++ {
		d := list[i%len(list)]
		d.node, d.from, d.began = node, from, time.Now()
		a, err := edge.Ask(ns, d.network(), d.to, otherTimeout)
		d.ended, d.answered, d.err = time.Now(), a.Name, err
		l.add(d)
		select {
		case <-time.After(dialEvery):
		case <-ctx.Done():
		}
	}
}

// besides are dials of all that: another port, UDP, and the node ports of all three.
func (s *Soak) besides(node string) (list []dial) {
	at := s.c.Nodes[node].IP
	for i := range script.Services {
		name := fmt.Sprintf("s%d", i)
		for _, p := range servicePorts {
			d := dial{to: netip.AddrPortFrom(frontendOf(name).Addr(), uint16(p.Port)), udp: p.Protocol == corev1.ProtocolUDP}
			if d.to != frontendOf(name) || d.udp {
				list = append(list, d)
			}
			d.to, d.nodePort = netip.AddrPortFrom(at, uint16(nodePortOf(name, p.Name))), true
			list = append(list, d)
		}
	}
	return list
}

// others are the frontends of all Services that steps edit.
func (s *Soak) others() (list []netip.AddrPort) {
	for i := range script.Services {
		list = append(list, frontendOf(fmt.Sprintf("s%d", i)))
	}
	return list
}

// dialled are all frontends of ClusterIPs that anybody dials over TCP.
func (s *Soak) dialled() []netip.AddrPort {
	list := append(s.others(), s.steady)
	for _, to := range s.others() {
		list = append(list, netip.AddrPortFrom(to.Addr(), uint16(servicePorts[1].Port)))
	}
	return list
}

// asker asks the node's DNS for the steady app.
func (s *Soak) asker(ctx context.Context, l *dials, node string) {
	for ctx.Err() == nil {
		d := dial{node: node, from: "node " + node, name: true, began: time.Now()}
		for try := 1; ; try++ { // a lost datagram is no failure
			var late net.Error
			if d.err = s.resolves(node); d.err == nil || try >= 3 && (!errors.As(d.err, &late) || !late.Timeout() || time.Since(d.began) > nameTimeout) {
				break
			}
		}
		d.ended = time.Now()
		l.add(d)
		select {
		case <-time.After(askEvery):
		case <-ctx.Done():
		}
	}
}

// resolves asks a node's DNS for the steady app's address.
func (s *Soak) resolves(node string) error {
	got, err := edge.Resolve(s.c.Nodes[node].NS, edge.NodeDNS[0]+":53", "steady.default.svc.cluster.local.", dns.TypeA)
	if want := []string{s.steady.Addr().String()}; err == nil && !slices.Equal(got, want) {
		return fmt.Errorf("the steady app resolves to %v, and is %v", got, want)
	}
	return err
}
