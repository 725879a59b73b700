package peer_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gridmesh/gridmesh/health"
	"github.com/gridmesh/gridmesh/health/check"
	"github.com/gridmesh/gridmesh/health/peer"
	"github.com/gridmesh/gridmesh/health/vote"
)

// ourNode is a node that runs gridmesh-health: the daemon and the exchange are the real ones.
type ourNode struct {
	*health.Daemon
	p    *peer.Peer
	name string
	ip   netip.Addr
	site *mixedSite

	mu   sync.Mutex
	last map[string]time.Time
	gaps map[string]time.Duration
}

// Report notes who is heard, and when.
func (o *ourNode) Report(ctx context.Context, r vote.Reported) vote.Reply {
	o.mu.Lock()
	now := time.Now()
	if last, ok := o.last[r.From]; ok {
		o.gaps[r.From] = max(o.gaps[r.From], now.Sub(last))
	}
	o.last[r.From] = now
	o.mu.Unlock()
	return o.Daemon.Report(ctx, r)
}

// Round implements health.Checker.
func (o *ourNode) Round(_ context.Context, targets []check.Target) map[string]bool {
	of := map[string]bool{}
	for _, t := range targets {
		of[t.Node] = o.site.lan.reaches(o.ip, t.Addr)
	}
	return of
}

// Annotate implements health.Cloud.
func (o *ourNode) Annotate(_ context.Context, v health.Verdict) error {
	o.site.mu.Lock()
	defer o.site.mu.Unlock()
	o.site.verdicts[v.Node] = v.Well
	o.site.writes = append(o.site.writes, fmt.Sprint(v.Node, "=", v.Well))
	return nil
}

// mixedSite is a unit in the middle of a migration.
type mixedSite struct {
	t      *testing.T
	lan    *lan
	ours   map[string]*ourNode
	theirs map[string]*edgeNode
	addrs  map[string]netip.Addr

	mu       sync.Mutex
	verdicts map[string]bool
	writes   []string
}

const (
	oldKey = "the key of the unit until now"
	newKey = "the key of the unit from now on"
)

// newMixedSite has two nodes of ours, a and b, and three of SuperEdge's.
func newMixedSite(t *testing.T, ctx context.Context, d peer.Dialect, all *sync.WaitGroup) *mixedSite {
	s := &mixedSite{t: t, lan: newLAN(), ours: map[string]*ourNode{}, theirs: map[string]*edgeNode{}, addrs: map[string]netip.Addr{}, verdicts: map[string]bool{}}
	u := health.Unit{Name: "shop"}
	var addrs []netip.Addr
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		s.addrs[name] = netip.AddrFrom4([4]byte{10, 9, 0, byte(i + 1)})
		addrs = append(addrs, s.addrs[name])
		u.Members = append(u.Members, health.Member{Name: name, UID: name, Addrs: []netip.Addr{s.addrs[name]}})
	}
	r := rand.New(rand.NewPCG(7, uint64(len(d))))
	for _, name := range []string{"c", "d", "e"} {
		e := newEdgeNode(s.lan, d, s.addrs[name], addrs, oldKey)
		s.theirs[name] = e
		seed := rand.New(rand.NewPCG(r.Uint64(), 1))
		all.Go(func() { e.run(ctx, seed) })
	}
	for _, name := range []string{"a", "b"} {
		s.start(ctx, d, name, u, all)
	}
	return s
}

// start starts a node of ours with the numbers of gridmesh-health --legacy.
func (s *mixedSite) start(ctx context.Context, d peer.Dialect, name string, u health.Unit, all *sync.WaitGroup) {
	o := &ourNode{name: name, ip: s.addrs[name], site: s, last: map[string]time.Time{}, gaps: map[string]time.Duration{}}
	cfg := vote.Default(name)
	cfg.Observers, cfg.Reporters, cfg.Fresh = peer.MostTold, peer.MostTold, theirTimeout+cfg.Every
	log := slog.New(slog.DiscardHandler)
	var err error
	if o.Daemon, err = health.New(health.Config{Vote: cfg, Log: log}, o, o, health.NewMetrics(prometheus.NewRegistry())); err != nil {
		s.t.Fatal(err)
	}
	wire := peer.Default()
	wire.Legacy, wire.LegacyFresh = d, cfg.Fresh
	if o.p, err = peer.New(wire, o, log, prometheus.NewRegistry()); err != nil {
		s.t.Fatal(err)
	}
	o.p.DialBy(s.lan.dialFrom(o.ip))
	o.SetExchange(o.p)
	s.ours[name] = o
	l := s.lan.listen(netip.AddrPortFrom(o.ip, theirPort))
	all.Go(func() { _ = o.p.Run(ctx, l) })
	all.Go(func() { _ = o.Run(ctx) })
	all.Go(func() {
		for {
			select {
			case may := <-o.May():
				if until := time.Now().Add(24 * time.Hour); may && name == "a" {
					o.SetLease(ctx, until)
				}
			case <-ctx.Done():
				return
			}
		}
	})
	if err := o.p.SetKeys([]byte(oldKey)); err != nil {
		s.t.Fatal(err)
	}
	view := peer.Unit{Self: name, Addrs: map[string][]netip.Addr{}}
	var members []vote.Member
	for _, m := range u.Members {
		view.Addrs[m.Name] = m.Addrs
		members = append(members, vote.Member{Name: m.Name, UID: m.UID})
	}
	view.View = vote.NewView(members, 0).ID
	o.p.SetUnit(view)
	o.SetUnit(ctx, u)
	o.SetUplink(ctx, true)
}

// dead checks that both kinds of nodes that live call the same nodes dead.
func (s *mixedSite) dead(when string, names ...string) {
	s.t.Helper()
	s.mu.Lock()
	verdicts := maps.Clone(s.verdicts)
	s.mu.Unlock()
	for name := range s.addrs {
		if well, ok := verdicts[name]; !ok || well == slices.Contains(names, name) {
			s.t.Errorf("%s: the verdict on %s is %v, %v", when, name, well, ok)
		}
	}
	want := map[string]bool{}
	for _, name := range names {
		want[s.addrs[name].String()] = true
	}
	for name, e := range s.theirs {
		if unwell, heard := e.state(); !slices.Contains(names, name) && !reflect.DeepEqual(unwell, want) {
			s.t.Errorf("%s: SuperEdge's node %s calls %v dead, and hears %s", when, name, unwell, heard)
		}
	}
}

// forgetGaps begins to measure how long nodes are not heard.
func (s *mixedSite) forgetGaps() {
	for _, o := range s.ours {
		o.mu.Lock()
		clear(o.gaps)
		o.mu.Unlock()
	}
	for _, e := range s.theirs {
		e.mu.Lock()
		clear(e.gaps)
		e.mu.Unlock()
	}
}

// noMinuteLost checks for how long each node was not heard: ours by nobody for a minute, and
// SuperEdge's by ours for no longer than from one of their reports to the next.
func (s *mixedSite) noMinuteLost() {
	for name, o := range s.ours {
		o.mu.Lock()
		for from := range s.addrs {
			most := theirReport + time.Second
			if s.ours[from] != nil {
				most = theirReport - time.Second
			}
			if gap := o.gaps[from]; from != name && (gap == 0 || gap > most) {
				s.t.Errorf("%s does not hear %s for %s", name, from, gap)
			}
		}
		o.mu.Unlock()
	}
	for name, e := range s.theirs {
		e.mu.Lock()
		for from := range s.ours {
			if gap := e.gaps[s.addrs[from].String()]; gap == 0 || gap >= theirTimeout {
				s.t.Errorf("SuperEdge's node %s does not hear %s for %s", name, from, gap)
			}
		}
		e.mu.Unlock()
	}
}

// step has each node take other keys, each within twenty seconds, as it hears of the ConfigMap.
func (s *mixedSite) step(r *rand.Rand, theirs string, ours ...string) {
	var all sync.WaitGroup
	later := func(do func()) {
		wait := time.Duration(r.Int64N(int64(20 * time.Second)))
		all.Go(func() { time.Sleep(wait); do() })
	}
	for _, name := range slices.Sorted(maps.Keys(s.ours)) {
		later(func() {
			var keys [][]byte
			for _, k := range ours {
				keys = append(keys, []byte(k))
			}
			if err := s.ours[name].p.SetKeys(keys...); err != nil {
				s.t.Error(err)
			}
		})
	}
	for _, name := range slices.Sorted(maps.Keys(s.theirs)) {
		later(func() {
			e := s.theirs[name]
			e.mu.Lock()
			defer e.mu.Unlock()
			e.key = theirs
		})
	}
	all.Wait()
	time.Sleep(2 * time.Minute)
}

// A unit in the middle of a migration, of both generations: nodes of SuperEdge and of ours hear
// each other, count each other's votes for a majority that neither has alone, and change the
// key together.
func TestMixedUnit(t *testing.T) {
	for _, d := range []peer.Dialect{peer.G1, peer.G2} {
		t.Run(string(d), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				var all sync.WaitGroup
				s := newMixedSite(t, ctx, d, &all)
				time.Sleep(5 * time.Minute)
				s.dead("all are well")

				s.lan.kill(s.addrs["e"], true) // two of each are left, and three are needed
				time.Sleep(4 * time.Minute)
				s.dead("one of SuperEdge's died", "e")
				s.lan.kill(s.addrs["e"], false)
				time.Sleep(8 * time.Minute)
				s.dead("it is back")

				s.lan.kill(s.addrs["b"], true) // one of ours is left
				time.Sleep(4 * time.Minute)
				s.dead("one of ours died", "b")
				s.lan.kill(s.addrs["b"], false)
				time.Sleep(8 * time.Minute)
				s.dead("it is back, too")

				s.mu.Lock()
				writes := len(s.writes)
				s.mu.Unlock()
				r := rand.New(rand.NewPCG(3, 4))
				s.forgetGaps()
				s.step(r, oldKey, oldKey, newKey)
				s.step(r, newKey, newKey, oldKey)
				s.step(r, newKey, newKey)
				s.noMinuteLost()
				s.dead("the key is another one")
				s.mu.Lock()
				for _, w := range s.writes[writes:] {
					if w[len(w)-5:] == "false" {
						t.Errorf("while keys were changed: %s", w)
					}
				}
				s.mu.Unlock()

				s.lan.kill(s.addrs["d"], true)
				time.Sleep(4 * time.Minute)
				s.dead("by the new key", "d")
				cancel()
				all.Wait()
				time.Sleep(silence) // who dials a dead node has given up
			})
		})
	}
}
