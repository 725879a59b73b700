package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/topology"
)

// Where manifests have something wrong when an agent starts, what a run before served stays, until all
// is right; without a run before, and of what is told while the agent runs, what is right is served.
func TestManifestsThatAreWrongAtTheStart(t *testing.T) {
	lost := topology.Problem{Object: "service default/web (file m/web.yaml document 1)", Field: "spec.ports", Text: "is empty", Loss: topology.LostValue}
	wrong := func(where string) *topology.Snapshot {
		o := webAndOther()
		key := topology.ObjectKey{Namespace: "default", Name: "web"}
		e, _ := o.Snapshot().Services.Get(key)
		switch where {
		case "in the manifests":
			o.Delete("web")
		case "of a Service":
			service := *e.Service
			service.Ports, service.Problems = nil, []topology.Problem{lost}
			o.Builder().SetService(&service)
		case "of a slice":
			slice := *e.Slices[0]
			slice.Endpoints, slice.Problems = nil, []topology.Problem{lost}
			o.Builder().SetSlice(&slice)
		}
		snap := *o.Snapshot()
		if where == "in the manifests" {
			snap.Problems = []topology.Problem{lost}
		}
		return &snap
	}
	for _, where := range []string{"in the manifests", "of a Service", "of a slice"} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.runBefore(t)
				r.kernel.Flush() // a boot
				r.source.Publish(wrong(where))
				r.mustStart(t)
				after(time.Hour)
				r.wantServed(t, "what was before", webFrontend)
				if got := r.findings(); !slices.Equal(got, []string{"manifests"}) || !strings.Contains(r.agent.found.all()[0].Text, "m/web.yaml") {
					t.Errorf("found are %v", r.agent.found.all())
				}
				if st := r.saved(t); st == nil || st.Snapshot.Services.Len() != 1 {
					t.Error("what is kept for the next start is gone")
				}
				r.publish(webAndOther())
				r.wantServed(t, "all is right", webFrontend, otherFrontend)
				if got := r.findings(); len(got) > 0 {
					t.Errorf("all is right: found are %v", got)
				}
				r.source.Publish(wrong(where))
				after(time.Minute)
				r.wantServed(t, "told while it runs", otherFrontend)
			})
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.source.Publish(wrong(where))
				r.mustStart(t)
				after(time.Minute)
				r.wantServed(t, "there was nothing before", otherFrontend)
			})
		})
	}
}

// What was wrong when a run before served it holds up nothing, nor does what that did not have.
func TestManifestsThatWereWrongBefore(t *testing.T) {
	lost := func(object string) topology.Problem {
		return topology.Problem{Object: object, Field: "spec.ports", Text: "is odd", Loss: topology.LostValue}
	}
	for _, tc := range []string{"service default/web", "service default/new (file m/new.yaml document 1)", "file m/torn.yaml document 1", "node a-1 (file m/n.yaml document 1)"} {
		t.Run(tc, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				snapshot := func(o *nodetest.Objects) *topology.Snapshot {
					if tc == "service default/web" {
						e, _ := o.Snapshot().Services.Get(topology.ObjectKey{Namespace: "default", Name: "web"})
						service := *e.Service
						service.Problems = []topology.Problem{lost(tc)}
						o.Builder().SetService(&service)
						return o.Snapshot()
					}
					snap := *o.Snapshot()
					snap.Problems = []topology.Problem{lost(tc)}
					return &snap
				}
				r := newRig(t)
				r.mustStart(t)
				r.source.Publish(snapshot(webOnly()))
				after(time.Minute)
				r.stop()
				r.again()
				r.source.Publish(snapshot(webAndOther()))
				r.mustStart(t)
				after(time.Minute)
				r.wantServed(t, "followed", webFrontend, otherFrontend)
			})
		})
	}
}

// While a disk is slow nobody knows what a run before served: its rules stay where manifests have something
// wrong, until the disk has told. After a boot there are none, and what is right is served.
func TestManifestsThatAreWrongWhileTheDiskIsSlow(t *testing.T) {
	objects := webAndOther()
	objects.Delete("web")
	wrong := *objects.Snapshot()
	wrong.Problems = []topology.Problem{{Object: "file m/web.yaml document 1", Text: "is torn", Loss: topology.LostNewer}}
	for _, boot := range []bool{false, true} {
		for name, hang := range map[string]func(r *rig) (answer func()){
			"hangs": func(r *rig) func() {
				giveState, giveNotes := r.hanging()
				return func() { giveState(); giveNotes() }
			},
			"cannot be read": func(r *rig) func() { return r.unreadable(t) },
		} {
			t.Run(fmt.Sprintf("%s, boot %v", name, boot), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t)
					r.runBefore(t)
					answer, served := hang(r), webFrontend
					if boot {
						r.kernel.Flush()
						served = otherFrontend
					}
					r.source.Publish(&wrong)
					r.mustStart(t)
					after(time.Minute)
					r.wantServed(t, "before the disk answered", served)
					if got := r.findings(); slices.Contains(got, "manifests") == boot {
						t.Errorf("found are %v", got)
					}
					answer()
					after(2 * time.Minute)
					r.wantServed(t, "the disk answered", served)
					r.publish(webAndOther())
					r.wantServed(t, "all is right", webFrontend, otherFrontend)
					if got := r.findings(); len(got) > 0 {
						t.Errorf("all is right: found are %v", got)
					}
				})
			})
		}
	}
}
