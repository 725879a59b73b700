package plan

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/topology/topologytest"
)

func config() Config {
	c := Default()
	c.PodCIDRs = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/29"), netip.MustParsePrefix("fd00:244::/125")}
	return c
}

// The law: a plan kept over a history equals one made anew, and the changes
// lead from each to the next.
func TestPlannerIsIncremental(t *testing.T) {
	for seed := range uint64(40) {
		w := topologytest.New(seed)
		viewer := topology.NewViewer("n0", topology.Options{})
		kept := NewPlanner(config())
		serve := map[topology.Frontend]bool{}
		for step := range 100 {
			w.Step()
			if step == 50 {
				w.Builder.SetServiceCIDRs([]netip.Prefix{netip.MustParsePrefix("10.96.0.0/24")})
			}
			view := viewer.See(w.Snapshot())
			change := kept.Next(view)
			if got, want := kept.Plan(), Of(view, config()); !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d step %d: kept %v, anew %v", seed, step, got, want)
			}
			for _, f := range change.AddServe {
				if serve[f] {
					t.Fatalf("seed %d step %d: %s added twice", seed, step, f)
				}
				serve[f] = true
			}
			for _, f := range change.DelServe {
				if !serve[f] {
					t.Fatalf("seed %d step %d: %s removed and not there", seed, step, f)
				}
				delete(serve, f)
			}
			if len(serve) != len(kept.Plan().Serve) {
				t.Fatalf("seed %d step %d: the changes lead elsewhere", seed, step)
			}
		}
	}
}

func TestDisjoint(t *testing.T) {
	list := []netip.Prefix{netip.MustParsePrefix("10.96.0.5/32"), netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("10.96.0.0/24"), netip.MustParsePrefix("fd00::/112"), netip.MustParsePrefix("10.97.0.1/32")}
	want := []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("10.97.0.1/32"), netip.MustParsePrefix("fd00::/112")}
	if got := Disjoint(list); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
