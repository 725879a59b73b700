package node

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/node/hold"
	"github.com/gridmesh/gridmesh/node/nodetest"
)

// mute has the API server answer, and say nothing of what these watches are for.
func (r *rig) mute(watches ...string) {
	r.api.Set(func(a *nodetest.API) { a.Mute = watches })
}

// wait lets an API server that answers be there for a time.
func (r *rig) wait(d time.Duration) {
	for range d / time.Second {
		r.contact()
		after(time.Second)
	}
}

// An API server that answers small questions after an outage, and refuses lists for longer than
// a hold takes, has said nothing yet: its first lists are as stale as they were, and darken no unit.
func TestListsThatComeAfterTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o := online(t)
		r.cut(55 * time.Second)
		r.mute("endpointslices", "nodes", "services")
		r.heal()
		r.wait(110 * time.Second)
		if r.loop.healing.hold == nil {
			t.Error("the hold is over before any list came")
		}
		o.Unready("web", onA1, onA2, onB1)
		r.hear(o)
		r.wantAnswer(t, "the first of the lists", onA1, onA2)
		r.wait(hold.Bound) // the others do not come yet
		r.wantAnswer(t, "some lists", onA1, onA2)
		r.mute()
		r.wait(hold.Bound - 20*time.Second)
		r.wantAnswer(t, "all lists", onA1, onA2)
		r.wantHeld(t, "all lists", 2)
		r.cut(time.Minute) // and the next round within it
		r.mute("nodes")
		r.heal()
		r.wait(2 * hold.Bound)
		r.wantHeld(t, "another outage", 2)
		r.stop() // a process that restarts has its own lists
		r.again()
		r.mute()
		r.mustStart(t)
		r.hear(o)
		r.wantHeld(t, "restarted", 2)
		r.wait(hold.Bound - 10*time.Second)
		r.wantHeld(t, "restarted, a while ago", 2)
		r.wait(20 * time.Second)
		r.wantHeld(t, "in the end", 0)
		r.wantEnvoy(t, "in the end")
	})
}

// A watch that never comes back lets nothing be held for ever, and is told.
func TestAWatchThatNeverComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o := online(t)
		r.cut(time.Minute)
		r.mute("nodes")
		r.heal()
		o.Gone("web", onA2)
		r.hear(o)
		r.wait(patientFor - 10*time.Second)
		r.wantFindings(t, "not for long")
		r.wait(20 * time.Second)
		r.wantFindings(t, "for long", "waiting-hold: waiting for nodes;")
		r.wantHeld(t, "for long", 1)
		r.wait(hold.Longest)
		r.wantHeld(t, "for very long", 0)
		r.wantAnswer(t, "for very long", onA1)
		r.wantFindings(t, "for very long", "waiting-hold: waiting for nodes;")
		r.mute()
		r.wait(hold.Bound + 5*time.Second)
		r.wantFindings(t, "it is back")
		if r.loop.healing.hold != nil {
			t.Error("the hold goes on")
		}
	})
}

// Watches that are open and say nothing are told, for as long as they do.
func TestWatchesThatAreOpenAndSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := online(t)
		r.api.Set(func(a *nodetest.API) { a.Open = []string{"services", "nodes"} })
		r.wait(2 * time.Second)
		r.wantFindings(t, "silent", "silent-watch: services, nodes;")
		if got := r.agent.status(); len(got.Degraded(time.Now())) != 1 {
			t.Errorf("silent: --check says %q", got.Degraded(time.Now()))
		}
		r.api.Set(func(a *nodetest.API) { a.Open = nil })
		r.wait(2 * time.Second)
		r.wantFindings(t, "they speak")
	})
}

// wantFindings compares kinds of findings, and looks for a word of each.
func (r *rig) wantFindings(t *testing.T, when string, want ...string) {
	t.Helper()
	list := r.agent.status().Findings
	ok := len(list) == len(want)
	for i := 0; ok && i < len(want); i++ {
		kind, text, _ := strings.Cut(want[i], ": ")
		ok = string(list[i].Kind) == kind && strings.Contains(list[i].Text, text)
	}
	if !ok {
		t.Errorf("%s: %v, want %v", when, list, slices.Clone(want))
	}
}
