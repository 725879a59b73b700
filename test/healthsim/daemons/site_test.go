package daemons

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gridmesh/gridmesh/health"
	"github.com/gridmesh/gridmesh/health/check"
	"github.com/gridmesh/gridmesh/health/vote"
	"github.com/gridmesh/gridmesh/internal/latest"
	"github.com/gridmesh/gridmesh/kube"
)

// site is a unit of daemons that reach each other, but for those that are dead.
type site struct {
	t     *testing.T
	api   *api
	names []string
	nodes map[string]*node
	all   sync.WaitGroup
	ctx   context.Context
}

// node is a node's end of the network. It counts what it sends: a dial, a request and a reply
// are a message each.
type node struct {
	*site
	name   string
	daemon *health.Daemon
	units  chan string
	dead   atomic.Bool
	lost   atomic.Bool // the cloud does not call it ready
	dark   atomic.Bool // it has no uplink
	sent   atomic.Int64
}

// way is how long a message takes.
const way = 2 * time.Millisecond

var errSilent = errors.New("no answer")

func newSite(ctx context.Context, t *testing.T, n int) *site {
	s := &site{t: t, api: newAPI(), nodes: map[string]*node{}, ctx: ctx}
	clients := map[string]*kube.Client{}
	for i := range n {
		name := fmt.Sprintf("node-%04d", i)
		at := &node{site: s, name: name, units: make(chan string, 1)}
		client := s.api.client(&at.dark)
		clients[name] = client
		d, err := health.New(health.Config{Vote: vote.Default(name), Log: slog.New(slog.DiscardHandler)}, at, health.Annotations{Client: client}, health.NewMetrics(prometheus.NewRegistry()))
		if err != nil {
			t.Fatal(err)
		}
		d.SetExchange(at)
		at.daemon, s.api.uids[name] = d, "uid-"+name
		s.names, s.nodes[name] = append(s.names, name), at
	}
	for i, name := range s.names {
		at := s.nodes[name]
		s.all.Go(func() {
			time.Sleep(10 * time.Second * time.Duration(i) / time.Duration(n)) // nobody begins all nodes at once
			s.all.Go(func() { _ = at.daemon.Run(ctx) })
			s.all.Go(func() {
				_ = health.HoldLease(ctx, clients[name], "gridmesh", name, at.units, at.daemon.May(), at.daemon.Quits(), func(until time.Time) { at.daemon.SetLease(ctx, until) }, slog.New(slog.DiscardHandler))
			})
			at.tell(s.unit())
			at.daemon.SetUplink(ctx, true)
		})
	}
	s.all.Go(s.watch)
	return s
}

// unit is who is in it, and what stands of each.
func (s *site) unit() health.Unit {
	u := health.Unit{Name: "unit"}
	s.api.mu.Lock()
	defer s.api.mu.Unlock()
	for i, name := range s.names {
		u.Members = append(u.Members, health.Member{
			Name: name, UID: s.api.uids[name], Verdict: s.api.verdicts[name], Cut: s.api.cuts[name], Lost: s.nodes[name].lost.Load(),
			Addrs: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})},
		})
	}
	return u
}

// tell tells a daemon what its watch would, as cmd/gridmesh-health does.
func (n *node) tell(u health.Unit) {
	u.Members = slices.Clone(u.Members)
	n.daemon.SetUnit(n.ctx, u)
	latest.Put(n.units, u.Name)
}

// watch has all learn what changed in the cloud, half a second later.
func (s *site) watch() {
	for {
		select {
		case <-s.api.changed:
		case <-s.ctx.Done():
			return
		}
		time.Sleep(500 * time.Millisecond)
		u := s.unit()
		for _, name := range s.names {
			if at := s.nodes[name]; !at.dark.Load() {
				at.tell(u)
			}
		}
	}
}

// uplink takes a node's uplink, or gives it back.
func (n *node) uplink(up bool) {
	n.dark.Store(!up)
	n.daemon.SetUplink(n.ctx, up)
	if up {
		n.tell(n.unit())
	}
}

func (s *site) touch() {
	select {
	case s.api.changed <- struct{}{}:
	default:
	}
}

// Round implements health.Checker.
func (n *node) Round(_ context.Context, targets []check.Target) map[string]bool {
	of, took := map[string]bool{}, 2*way
	for _, t := range targets {
		n.sent.Add(1)
		to := n.nodes[t.Node]
		if of[t.Node] = !n.dead.Load() && !to.dead.Load(); of[t.Node] {
			to.sent.Add(1)
		} else {
			took = 3 * time.Second
		}
	}
	time.Sleep(took)
	return of
}

// Report implements health.Exchange.
func (n *node) Report(ctx context.Context, to string, r vote.Reported) (vote.Reply, error) {
	return exchange(n, to, func(d *health.Daemon) vote.Reply { return d.Report(ctx, r) })
}

// Ask implements health.Exchange.
func (n *node) Ask(ctx context.Context, to string, nodes []string) ([]vote.Result, error) {
	others := slices.DeleteFunc(slices.Clone(nodes), func(name string) bool { return name == to })
	return exchange(n, to, func(d *health.Daemon) []vote.Result { return d.Probe(ctx, others) })
}

func exchange[T any](n *node, to string, serve func(d *health.Daemon) T) (t T, err error) {
	n.sent.Add(1)
	other := n.nodes[to]
	if n.dead.Load() || other.dead.Load() {
		time.Sleep(3 * time.Second)
		return t, errSilent
	}
	time.Sleep(way)
	t = serve(other.daemon)
	other.sent.Add(1)
	time.Sleep(way)
	return t, nil
}
