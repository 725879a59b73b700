package node

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/node/nodetest"
)

func always(string) bool { return true }

// taken are the names that are kept, sorted.
func (u *used) taken() []string { return slices.Sorted(maps.Keys(u.seen)) }

// Who dials every Service once does not displace what is in use, and what is
// kept is bounded.
func TestAScanDisplacesNothing(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	u := newUsed()
	for i := range 50 {
		u.ask(fmt.Sprint("real-", i))
	}
	if !u.admit(now) || len(u.seen) != 50 {
		t.Fatalf("%d are taken at once, want 50", len(u.seen))
	}
	for i := range 70_000 {
		u.ask(fmt.Sprint("scan-", i))
	}
	u.admit(now)
	if n := len(u.taken()); n != usedBurst || len(u.waiting) != usedMax-50 || len(u.notes()) != 1 {
		t.Errorf("%d are taken, %d wait, %q", n, len(u.waiting), u.notes())
	}
	for range 10_000 {
		now = now.Add(usedEvery)
		u.admit(now)
		u.age(always, now)
	}
	if len(u.queued) != len(u.waiting) {
		t.Errorf("%d wait, %d are queued", len(u.waiting), len(u.queued))
	}
	names := u.taken()
	if len(names) != usedMax {
		t.Errorf("%d are taken, want %d", len(names), usedMax)
	}
	for i := range 50 {
		if !slices.Contains(names, fmt.Sprint("real-", i)) {
			t.Fatalf("real-%d was displaced", i)
		}
	}
	again := newUsed()
	again.restore(append(u.names(), "latest"), now)
	if got := again.names(); !slices.Equal(got, append(u.names()[1:], "latest")) {
		t.Errorf("%d are restored, not the latest in their order", len(got))
	}
}

// What is no Service's for a day is forgotten; the clock may jump meanwhile.
func TestUsedAges(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	u := newUsed()
	u.restore([]string{"gone", "here"}, now)
	here := func(name string) bool { return name == "here" }
	u.age(here, now.Add(-time.Hour))
	u.age(here, now.Add(usedGone))
	if got := u.taken(); !slices.Equal(got, []string{"gone", "here"}) {
		t.Errorf("after a day: %v", got)
	}
	if !u.age(here, now.Add(usedGone+time.Second)) {
		t.Error("nothing was forgotten")
	}
	if got := u.taken(); !slices.Equal(got, []string{"here"}) {
		t.Errorf("after more than a day: %v", got)
	}
	u.admit(now)
	u.ask("new")
	if !u.admit(now.Add(-time.Hour)) || !slices.Equal(u.names(), []string{"here", "new"}) {
		t.Errorf("after a clock that jumped: %v", u.names())
	}
}

// A pod dials all of 2000 Services: the state stays small, and a restart keeps
// what was used before.
func TestAScanAndARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		o := nodetest.NewObjects()
		var names []string
		for i := range 2000 {
			ip := fmt.Sprintf("10.96.%d.%d", 1+i/250, 1+i%250)
			o.Plain(fmt.Sprint("far-", i), ip, map[string]string{"b-1": "10.244.9.7"})
			names = append(names, ip+":80")
		}
		r.publish(o)
		r.xds.Ask(names[1999])
		synctest.Wait()
		r.xds.Ask(names...)
		synctest.Wait()
		after(saveInterval)
		r.stop()
		used := r.saved(t).Used
		if len(used) > usedBurst+1 || !slices.Contains(used, names[1999]) {
			t.Errorf("%d are saved as used, that of before among them: %v", len(used), slices.Contains(used, names[1999]))
		}
		if len(r.agent.status().Notes) != 1 {
			t.Errorf("notes: %q", r.agent.status().Notes)
		}
	})
}
