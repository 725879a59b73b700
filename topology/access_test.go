package topology_test

import (
	"strings"
	"testing"

	. "github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/topology/topologytest"
)

// The law: what a tier holds is allowed; what Explain says is left out for
// its unit is denied; nothing else ever is.
func TestAccessAgreesWithTheReasons(t *testing.T) {
	counts := map[Access]int{}
	for seed := range uint64(60) {
		w := topologytest.New(seed)
		for range 80 {
			w.Step()
		}
		snap := w.Builder.Build()
		view := See(snap, "n0", Options{})
		for _, sv := range view.Sorted() {
			entry, _ := snap.Services.Get(sv.Key)
			reasons := Explain(snap, view, Options{}, sv.Key)
			for _, f := range sv.Frontends {
				if f.Protocol != TCP && f.Protocol != UDP {
					continue
				}
				allowed := map[string]bool{}
				for _, tier := range f.Tiers {
					for _, e := range tier.Endpoints {
						allowed[e.Addr.String()] = true
						if got := ClusterIPAccess(entry, sv, f.AddrPort(), e.Addr, f.Protocol); got != AccessAllowed {
							t.Fatalf("seed %d: %s of %s is in a tier: access %d", seed, e.Addr, f.Frontend, got)
						}
					}
				}
				for _, l := range reasons[f.Frontend] {
					got := ClusterIPAccess(entry, sv, f.AddrPort(), l.Addr, f.Protocol)
					counts[got]++
					unit := strings.Contains(l.Reason, "unit") || strings.Contains(l.Reason, "not known") ||
						strings.Contains(l.Reason, "has no label") || strings.Contains(l.Reason, "not on this node") || strings.Contains(l.Reason, "same address and port")
					if got == AccessDenied && (!unit || allowed[l.Addr.String()] || sv.Keys.Mode == NoKeys) {
						t.Fatalf("seed %d: %s of %s is denied, though: %s", seed, l.Addr, f.Frontend, l.Reason)
					}
					if got == AccessUnrelated {
						t.Fatalf("seed %d: %s of %s is left out and unrelated", seed, l.Addr, f.Frontend)
					}
				}
			}
		}
	}
	if counts[AccessDenied] == 0 || counts[AccessAllowed] == 0 {
		t.Errorf("the worlds hold no case of a kind: %v", counts)
	}
}

// What is no ClusterIP's takes no Envoy, and is unrelated.
func TestAccessOutside(t *testing.T) {
	kept := 0
	for seed := range uint64(20) {
		w := topologytest.New(seed)
		for range 80 {
			w.Step()
		}
		snap := w.Builder.Build()
		for _, sv := range See(snap, "n0", Options{Datapath: DatapathEnvoy}).Sorted() {
			entry, _ := snap.Services.Get(sv.Key)
			for _, o := range sv.Outside {
				if o.Path == PathEnvoy {
					t.Errorf("seed %d: %s of %s takes Envoy", seed, o.Frontend, sv.Key)
				}
				for _, tier := range o.Tiers {
					for _, e := range tier.Endpoints {
						kept++
						if got := ClusterIPAccess(entry, sv, o.AddrPort(), e.Addr, o.Protocol); got != AccessUnrelated {
							t.Errorf("seed %d: %s of %s: access %d", seed, e.Addr, o.Frontend, got)
						}
					}
				}
			}
		}
	}
	if kept == 0 {
		t.Error("the worlds hold no endpoint behind such a frontend")
	}
}
