package node

import (
	"context"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/topology"
)

// told are the kinds of findings.
func (r *rig) findings() (kinds []string) {
	for _, f := range r.agent.found.all() {
		kinds = append(kinds, string(f.Kind))
	}
	return kinds
}

// Manifests that are all gone at once, as with a volume that is not mounted, take nothing
// out of service, and that is said; also where a run before served them. A directory with
// anything in it is believed.
func TestManifestsThatAreGone(t *testing.T) {
	empty := topology.NewBuilder().Build()
	for name, before := range map[string]func(t *testing.T, r *rig){
		"while the agent runs": func(t *testing.T, r *rig) { r.mustStart(t); r.publish(webOnly()) },
		"at its start":         func(t *testing.T, r *rig) { r.runBefore(t); r.source.Publish(empty); r.mustStart(t) },
		"after a boot":         func(t *testing.T, r *rig) { r.runBefore(t); r.kernel.Flush(); r.source.Publish(empty); r.mustStart(t) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				before(t, r)
				r.source.Publish(empty)
				after(time.Hour)
				r.wantServed(t, "gone", webFrontend)
				if holds, _ := r.xds.Holds("10.96.0.10:80"); len(holds) != 1 {
					t.Errorf("Envoy holds %v", holds)
				}
				if got := r.findings(); !slices.Equal(got, []string{"manifests"}) {
					t.Errorf("found are %v", got)
				}
				if st := r.saved(t); st == nil || st.Snapshot.Services.Len() != 1 {
					t.Error("what is kept for the next start is gone as well")
				}
				r.publish(webAndOther())
				r.wantServed(t, "there again", webFrontend, otherFrontend)
				if got := r.findings(); len(got) > 0 {
					t.Errorf("there again: found are %v", got)
				}
				r.publish(nodetest.NewObjects()) // Nodes and no Service
				r.wantServed(t, "no Service on purpose")
			})
		})
	}
}

// A node that knows of nothing begins with an empty directory, and an API server that has
// nothing is not asked by these rules.
func TestManifestsThatWereNeverThere(t *testing.T) {
	for _, api := range []*nodetest.API{nil, {}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			if r.api = api; api != nil {
				r.mustStart(t)
				r.publish(webOnly())
			} else {
				r.mustStart(t)
			}
			r.source.Publish(topology.NewBuilder().Build())
			synctest.Wait()
			r.wantServed(t, "believed")
			if slices.Contains(r.findings(), "manifests") {
				t.Errorf("found are %v", r.findings())
			}
		})
	}
}

// Where Nodes come from manifests, so do their ranges of pods: at the start, and when the
// own Node is another. Nobody asks in between.
func TestPodCIDRsOfManifests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var has atomic.Pointer[[]netip.Prefix]
		var asked atomic.Int32
		has.Store(new(prefixes("10.244.1.0/24")))
		r.podCIDRs = func(_ context.Context, node string) ([]netip.Prefix, error) {
			asked.Add(1)
			if node != "a-1" {
				t.Errorf("asked for %s", node)
			}
			return *has.Load(), nil
		}
		r.mustStart(t)
		r.publish(webOnly())
		want := func(when string, list ...string) {
			t.Helper()
			if got := r.agent.status().PodCIDRs; !slices.Equal(got, prefixes(list...)) {
				t.Errorf("%s: %v", when, got)
			}
		}
		after(6 * time.Second)
		want("at the start", "10.244.1.0/24")
		before := asked.Load()
		after(time.Hour)
		if asked.Load() != before {
			t.Errorf("asked %d times in between", asked.Load()-before)
		}
		has.Store(new(prefixes("10.244.7.0/24")))
		r.publish(webOnly()) // which has other Nodes
		after(6 * time.Second)
		want("another Node", "10.244.7.0/24")
		r.cfg.PodCIDRs = nil
		r.stop()
		r.again()
		r.podCIDRs = func(context.Context, string) ([]netip.Prefix, error) { return nil, errBroken }
		r.mustStart(t)
		r.publish(webOnly())
		want("it cannot be read", "10.244.7.0/24")
	})
}
