package rules

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/topology/topologytest"
)

// The law of the kernel path: over random histories what is its own goes to the
// endpoints of the first tier, and so does what is Envoy's while nobody listens or Envoy
// is absent; what has no tier is refused or dropped on all of these ways.
func TestTheKernelPathServesItsOwn(t *testing.T) {
	opts := topology.Options{Outside: true, Datapath: topology.DatapathAuto}
	cfg, seen := behind(), map[Fate]int{}
	for seed := range uint64(8) {
		w := topologytest.New(seed)
		viewer := topology.NewViewer("n0", opts)
		for range 50 {
			w.Step()
			view := viewer.See(w.Snapshot())
			planner := plan.NewKernelPlanner(cfg, nil)
			for _, s := range view.Sorted() {
				planner.Set(s.Key.String(), plan.KernelOf(s))
			}
			planner.Settle()
			p, state := plan.Of(view, cfg), KernelStateOf(planner)
			for _, s := range view.Sorted() {
				for i := range s.Frontends {
					checkFrontend(t, p, state, &s.Frontends[i], seen)
				}
			}
		}
	}
	for _, fate := range []Fate{ToEnvoy, ToEnd, Refused, Dropped} {
		if seen[fate] == 0 {
			t.Errorf("no packet met %s: %v", fate, seen)
		}
	}
}

func checkFrontend(t *testing.T, p *plan.Plan, state *KernelState, f *topology.FrontendView, seen map[Fate]int) {
	t.Helper()
	var first []netip.AddrPort
	for _, tier := range topology.ByReadiness(f.Tiers) { // the first that has one which is not voted dead
		for _, e := range tier.Endpoints {
			if !e.Dead {
				first = append(first, e.Addr)
			}
		}
		if len(first) > 0 {
			break
		}
	}
	for _, packet := range []Packet{{}, {NoListen: true}, {Absent: true}} {
		want := ToEnd
		switch {
		case f.Silent:
			want = Dropped
		case len(first) == 0:
			want = Refused
		case f.Path == topology.PathEnvoy && !packet.NoListen && !packet.Absent:
			want = ToEnvoy
		}
		packet.Src, packet.To, packet.Awaited = podV4, f.Frontend, f.Protocol == topology.UDP && want == ToEnvoy
		got := Inet(behind()).WalkWith(p, state, packet)
		seen[got.Fate]++
		if got.Fate != want || want == ToEnd && !slices.Equal(got.Ends, first) {
			t.Fatalf("%s by %s, nobody listens %v, absent %v: %s to %v, want %s to %v; rules: %v", f.Frontend, f.Path, packet.NoListen, packet.Absent, got.Fate, got.Ends, want, first, got.Met)
		}
	}
}
