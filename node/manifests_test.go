package node

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/source"
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

// What a run before served is not given up for manifests that are gone while nobody knows
// yet what it was: the disk is slow, cannot be read, or has lost the state. Nor is what is
// on disk written over. A directory with anything in it is believed.
func TestManifestsThatAreGoneBeforeAnythingWasRead(t *testing.T) {
	nothing := func() {}
	for name, tc := range map[string]struct {
		before func(t *testing.T, r *rig) (answer func())
		kept   int // Services, at last
	}{
		"the disk hangs": {kept: 1, before: func(_ *testing.T, r *rig) func() {
			giveState, giveNotes := r.hanging()
			return func() { giveState(); giveNotes() }
		}},
		"the disk hangs, after a boot": {kept: 1, before: func(_ *testing.T, r *rig) func() {
			r.kernel.Flush()
			giveState, giveNotes := r.hanging()
			return func() { giveState(); giveNotes() }
		}},
		"the state cannot be read": {kept: 1, before: func(t *testing.T, r *rig) func() { return r.unreadable(t) }},
		"the state is lost": {before: func(t *testing.T, r *rig) func() {
			must(t, os.Remove(filepath.Join(r.cfg.StateDir, source.StateFile)))
			return nothing
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.runBefore(t)
				answer := tc.before(t, r)
				r.source.Publish(topology.NewBuilder().Build())
				_, found := r.kernel.InForce()
				r.mustStart(t)
				after(time.Minute)
				if found {
					r.wantServed(t, "gone", webFrontend)
				}
				if got := r.findings(); !slices.Contains(got, "manifests") {
					t.Errorf("found are %v", got)
				}
				answer()
				after(2 * time.Minute)
				r.wantServed(t, "the disk answered", webFrontend)
				if got := r.findings(); !slices.Equal(got, []string{"manifests"}) {
					t.Errorf("the disk answered: found are %v", got)
				}
				switch there := r.exists(source.StateFile); {
				case there != (tc.kept > 0):
					t.Errorf("a state is kept: %v", there)
				case there && r.saved(t).Snapshot.Services.Len() != tc.kept:
					t.Error("what is kept for the next start is gone as well")
				}
				r.publish(nodetest.NewObjects()) // Nodes and no Service
				r.wantServed(t, "no Service on purpose")
				if got := r.findings(); len(got) > 0 {
					t.Errorf("no Service on purpose: found are %v", got)
				}
			})
		})
	}
}

// Where a disk that was slow had nothing, an empty directory is what there is.
func TestManifestsThatWereNeverThereByASlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		giveState, giveNotes := r.hanging()
		r.source.Publish(topology.NewBuilder().Build())
		r.mustStart(t)
		if got := r.findings(); !slices.Equal(got, []string{"manifests"}) {
			t.Errorf("before: found are %v", got)
		}
		giveState()
		giveNotes()
		if got := r.findings(); !slices.Equal(got, []string{"own-node"}) || r.agent.status().Source != report.Live {
			t.Errorf("found are %v, served is by %s", got, r.agent.status().Source)
		}
	})
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
// source has something new. Nobody asks in between.
func TestPodCIDRsOfManifests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var has atomic.Pointer[[]netip.Prefix]
		var asked atomic.Int32
		has.Store(new(prefixes("10.244.1.0/24")))
		r.podCIDRs = func(node string) []netip.Prefix {
			asked.Add(1)
			if node != "a-1" {
				t.Errorf("asked for %s", node)
			}
			return *has.Load()
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
		r.publish(webOnly())
		after(6 * time.Second)
		want("another Node", "10.244.7.0/24")
		r.cfg.PodCIDRs = nil
		r.stop()
		r.again()
		r.podCIDRs = func(string) []netip.Prefix { return nil }
		r.mustStart(t)
		r.publish(webOnly())
		want("there is none", "10.244.7.0/24")
	})
}

// Ranges of pods in a directory are followed where nothing else of the Node changes, and
// what is half written takes none away.
func TestPodCIDRsOfADirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		path := t.TempDir()
		write := func(name, text string) {
			t.Helper()
			must(t, os.WriteFile(filepath.Join(path, name), []byte(text), 0o600))
			after(6 * time.Second)
		}
		want := func(when string, list ...string) {
			t.Helper()
			if got := r.agent.status().PodCIDRs; !slices.Equal(got, prefixes(list...)) {
				t.Errorf("%s: %v, want %v", when, got, list)
			}
			if rules, _ := r.kernel.InForce(); !slices.Equal(rules.Pods, prefixes(list...)) {
				t.Errorf("%s: in force are %v, want %v", when, rules.Pods, list)
			}
		}
		const mine = "{apiVersion: v1, kind: Node, metadata: {name: a-1, labels: {unit: a}}, spec: {podCIDRs: [%s]}}"
		write("1.yaml", fmt.Sprintf(mine, "10.244.1.0/24"))
		r.dir = source.NewDir(path)
		r.mustStart(t)
		after(6 * time.Second)
		want("at the start", "10.244.1.0/24")
		if n := r.log.Count("no pod CIDR is known"); n != 0 {
			t.Errorf("said %d times that none is known", n)
		}
		write("1.yaml", fmt.Sprintf(mine, "10.244.17.0/24, 'fd00:17::/64'"))
		want("they alone are others", "10.244.17.0/24", "fd00:17::/64")
		write("1.yaml", fmt.Sprintf(mine, "10.244.1.5/24"))
		want("with bits beyond their length", "10.244.1.0/24")
		write("1.yaml", "{apiVersion: v1, kind: Node, metadata: {name: a-1, lab")
		want("half written", "10.244.1.0/24")
		write("1.yaml", "{apiVersion: v1, kind: Node, metadata: {name: a-1, uid: u}, spec: {podCIDR: 10.244.3.0/24}}")
		want("in the older field", "10.244.3.0/24")
		write("2.yaml", "{apiVersion: v1, kind: Node, metadata: {name: a-1, labels: {unit: b}}}")
		write("1.yaml", "{apiVersion: v1, kind: Node, metadata: {name: a-1, uid: u}, spec: {podCIDR: 10.244.104.0/24}}")
		want("of a cluster's, which another manifest is put over", "10.244.104.0/24")
	})
}

// What of manifests is not in force as it is written is in the log once, and so is that it is again.
func TestManifestsThatAreNotInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		publish := func(problems ...topology.Problem) {
			snap := *webOnly().Snapshot()
			snap.Problems = problems
			r.source.Publish(&snap)
			after(time.Minute)
		}
		want := func(came, over int) {
			t.Helper()
			if r.log.Count("not in force as the manifests have it") != came || r.log.Count("in force again as the manifests have it") != over {
				t.Errorf("want %d and %d lines: %s", came, over, r.log.String())
			}
		}
		held := topology.Problem{Object: "service default/web (file m/web.yaml document 1)", Text: "99999 is no port", Loss: topology.LostNewer}
		publish(topology.Problem{Object: "service default/web", Text: "is a doubt"})
		want(0, 0)
		publish(held)
		publish(held, topology.Problem{Object: "service default/web", Text: "is a doubt"})
		want(1, 0)
		if text := r.log.String(); !strings.Contains(text, "99999 is no port") || !strings.Contains(text, "m/web.yaml") {
			t.Errorf("the line does not say what and where: %s", text)
		}
		publish()
		publish()
		want(1, 1)
		for range 30 { // however often they change, what is said last is true
			publish(held)
			publish()
		}
		after(time.Hour)
		said := r.log.String()
		if lines := strings.Count(said, "as the manifests have it"); lines > 20 || strings.LastIndex(said, "in force again") < strings.LastIndex(said, "is not in force") {
			t.Errorf("in %d lines is said %s", lines, said)
		}
	})
}
