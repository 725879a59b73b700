package node

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/node/preload"
	"github.com/gridmesh/gridmesh/node/statedir"
	"github.com/gridmesh/gridmesh/xds/admin"
	"github.com/gridmesh/gridmesh/xds/render"
)

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
		after(statedir.SaveInterval)
		r.stop()
		used := r.saved(t).Used
		if len(used) > preload.Burst+1 || !slices.Contains(used, names[1999]) {
			t.Errorf("%d are saved as used, that of before among them: %v", len(used), slices.Contains(used, names[1999]))
		}
		if len(r.agent.status().Notes) != 1 {
			t.Errorf("notes: %q", r.agent.status().Notes)
		}
	})
}

// The pages say the numbers that count here.
func TestTheNumbersOnThePages(t *testing.T) {
	udp := render.Default().MaxUDP
	for page, parts := range map[string][]string{
		"../docs/ARCHITECTURE.md": {fmt.Sprintf("up to %d that were used", preload.Most), fmt.Sprintf("%d a node, and the cluster's DNS", udp), fmt.Sprintf("`--preload-max`, %d", Default().PreloadMax)},
		"../docs/limits.md": {
			fmt.Sprintf("up to %d clusters; %d new ones are taken at once, then one every %s", preload.Most, preload.Burst, preload.Every),
			fmt.Sprintf("waits for %s", preload.WaitIdle), fmt.Sprintf("let go after %d days", preload.Idle/(24*time.Hour)), fmt.Sprintf("a node has %d UDP", udp),
		},
	} {
		text, err := os.ReadFile(page)
		must(t, err)
		words := strings.Join(strings.Fields(string(text)), " ")
		for _, part := range parts {
			if !strings.Contains(words, part) {
				t.Errorf("%s does not say %q", page, part)
			}
		}
	}
}

// The unit's endpoints of 300 Services go, of which 250 are dialled all the time: none of those
// is taken from Envoy, before and after their turns, and a restart knows of them.
func TestWhatWasNearIsNotTakenFromEnvoy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := webOnly()
		r := asked(t, o)
		var names []string
		var busy []admin.Cluster
		from := func(node string) {
			for i := range 300 {
				o.Plain(fmt.Sprint("near-", i), fmt.Sprintf("10.96.%d.%d", 1+i/250, 1+i%250), map[string]string{node: "10.244.9.7"})
			}
			r.publish(o)
		}
		for i := range 300 {
			names = append(names, fmt.Sprintf("10.96.%d.%d:80", 1+i/250, 1+i%250))
		}
		lost := func(when string, names []string) {
			t.Helper()
			n := 0
			for _, name := range names {
				if _, ok := r.xds.Holds(name); !ok {
					n++
				}
			}
			if n > 0 {
				t.Errorf("%s: %d of %d are taken from Envoy", when, n, len(names))
			}
		}
		from("a-2")
		lost("near", names)
		for _, name := range names[:250] {
			busy = append(busy, ofEnvoy(name, 1, 1))
		}
		from("b-1")
		lost("fallen", names)
		r.envoy.Say(busy...)
		r.look()
		lost("a look later", names)
		for range 3 {
			after(preload.WaitIdle)
			lost("hours later", names[:250])
		}
		if _, ok := r.xds.Holds(names[299]); ok {
			t.Error("what nobody uses is held for hours")
		}
		r.stop()
		if used := r.saved(t).Used; len(used) != 250 {
			t.Errorf("%d are saved as used, want 250", len(used))
		}
	})
}

// Where Envoy says nothing of what it uses, and no state is written, what was near goes after
// the hour as well; who gets a deleted Service's address was never near.
func TestWhatWasNearAgesUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const fell, deleted = "10.96.1.1:80", "10.96.1.2:80"
		o := webOnly()
		r := lateLock(t, func(string) (func(), error) { return nil, fmt.Errorf("%w: another agent", run.ErrInUse) })
		near := func(node string) {
			o.Plain("fell", "10.96.1.1", map[string]string{node: "10.244.9.7"})
			o.Plain("deleted", "10.96.1.2", map[string]string{node: "10.244.9.8"})
			r.publish(o)
		}
		holds := func(when, name string, want bool) {
			t.Helper()
			if entry, ok := r.xds.Holds(name); ok != want {
				t.Errorf("%s: Envoy holds %s: %v (%v), want %v", when, name, ok, entry, want)
			}
		}
		near("a-2")
		near("b-1")
		holds("fallen", fell, true)
		holds("fallen", deleted, true)
		o.Delete("deleted")
		r.publish(o)
		after(2 * time.Second)
		o.Plain("new", "10.96.1.2", map[string]string{"b-1": "10.244.9.9"})
		r.publish(o)
		holds("another Service's", deleted, false)
		after(preload.WaitIdle - time.Minute)
		holds("within the hour", fell, true)
		after(2 * time.Minute)
		holds("after it", fell, false)
		r.stop()
		if r.exists("state") {
			t.Error("a state was written")
		}
	})
}

// What was near and was dialled once is held by the next run as by this, and no longer.
func TestARestartHoldsWhatWasNear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := webOnly()
		r := asked(t, o)
		var names []string
		var dialled []admin.Cluster
		from := func(node string) {
			for i := range preload.Burst + 50 {
				o.Plain(fmt.Sprint("near-", i), fmt.Sprintf("10.96.1.%d", i), map[string]string{node: "10.244.9.7"})
			}
			r.publish(o)
		}
		for i := range preload.Burst + 50 {
			names = append(names, fmt.Sprintf("10.96.1.%d:80", i))
			dialled = append(dialled, ofEnvoy(names[i], 1, 0))
		}
		missing := func() (n int) {
			for _, name := range names {
				if _, ok := r.xds.Holds(name); !ok {
					n++
				}
			}
			return n
		}
		from("a-2")
		r.look()
		from("b-1")
		r.look()
		r.envoy.Say(dialled...)
		r.look()
		after(statedir.SaveInterval)
		r.stop()
		r.again()
		r.mustStart(t)
		after(liveFirst)
		if n := missing(); n > 0 {
			t.Errorf("%d of %d are not held by the next run", n, len(names))
		}
		r.publish(o)
		r.look()
		if n := missing(); n > 0 {
			t.Errorf("%d of %d are not held by the next run with a cloud", n, len(names))
		}
		after(preload.WaitIdle + time.Minute)
		if n := missing(); n < 45 || n > 50 {
			t.Errorf("%d of %d went an hour later, want those that had no turn", n, len(names))
		}
	})
}

// unmended is a capture that has something else to put in order, and never can: as a sysctl
// that is read-only.
type unmended struct{ Capture }

func (u unmended) Repair() (bool, error) {
	repaired, err := u.Capture.Repair()
	return repaired, errors.Join(err, errBroken)
}

// What is wrong beside the kernel's elements, which may last, has Envoy told of each snapshot
// once, and keeps no cluster with it that nothing leads to.
func TestWhatElseIsBrokenKeepsNothingWithEnvoy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const fell = "10.96.1.1:80"
		r := newRig(t)
		r.wrap = func(c Capture) Capture { return unmended{c} }
		r.mustStart(t)
		o := webOnly()
		near := func(node string) {
			o.Plain("fell", "10.96.1.1", map[string]string{node: "10.244.9.7"})
			r.publish(o)
		}
		near("a-2")
		after(repairEvery)
		if r.agent.status().Error == "" {
			t.Fatal("nothing is broken")
		}
		r.journal.Take()
		for _, node := range []string{"a-1", "a-2", "b-1"} {
			near(node)
			told := slices.DeleteFunc(r.journal.Take(), func(did string) bool { return did != "Update" })
			if len(told) != 1 {
				t.Errorf("on %s: Envoy is told %d times", node, len(told))
			}
		}
		if _, ok := r.xds.Holds(fell); !ok {
			t.Error("what was near is taken at once")
		}
		after(preload.WaitIdle + 2*time.Minute) // no snapshot comes meanwhile
		if _, ok := r.xds.Holds(fell); ok {
			t.Error("what nobody uses any more is held until the next snapshot")
		}
	})
}
