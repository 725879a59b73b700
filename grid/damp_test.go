package grid_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/grid/gridtest"
	"github.com/gridmesh/gridmesh/grid/plan"
)

// mine asks for a field that others have another opinion of.
var mine = strings.Replace(tillGrid, "spec: {containers", "spec: {schedulerName: mine, containers", 1)

const scheduler = "spec.template.spec.schedulerName"

func schedule(obj plan.Object, by string) {
	obj["spec"].(plan.Object)["template"].(plan.Object)["spec"].(plan.Object)["schedulerName"] = by
}

// told counts Events with a text.
func (w *world) told(text string) (n int) {
	for _, e := range w.events.All() {
		if strings.Contains(e, text) {
			n++
		}
	}
	return n
}

// A webhook that never rewrites the same twice is not fought without a pause:
// the grid says which field it is about, and is as before once that is over.
func TestAWebhookThatNeverSettles(t *testing.T) {
	var n atomic.Int64
	const most = 2000 // ends a fight without a pause, which would never let time pass
	run(t, settings{Config: gridtest.Config{AutoReady: true, Mutate: func(obj plan.Object) {
		if obj["kind"] == "Deployment" && n.Load() < most {
			schedule(obj, fmt.Sprintf("other-%d", n.Add(1)))
		}
	}}}, func(c *gridtest.Cluster) {
		shops("north", "south")(c)
		update(c, mine)
	}, func(w *world) {
		w.pass(10 * time.Minute)
		if n := n.Load(); n > 100 { // two calls a write, two children
			t.Errorf("%d writes to 2 children in 10 minutes", n)
		}
		if n := len(w.events.All()); n > 20 {
			t.Errorf("%d Events in 10 minutes:\n%s", n, strings.Join(w.events.All(), "\n"))
		}
		if status, message := w.condition(till, "Valid"); status != "False" || !strings.Contains(message, scheduler) {
			t.Errorf("Valid is %q: %s", status, message)
		}
		since, answered := time.Now(), w.told("Updated")
		update(w.Cluster, mine, "image: v1", "image: v2")
		w.pass(500 * time.Millisecond)
		if len(w.changes(since)) == 0 {
			t.Error("a change of the grid waits for a dispute about another")
		}
		if w.told("Updated") <= answered {
			t.Error("a change of the grid goes without an Event")
		}
		n.Store(most)
		w.pass(10 * time.Minute)
		if status, message := w.condition(till, "Valid"); status != "True" {
			t.Errorf("it is over, and Valid is %q: %s", status, message)
		}
		w.quiet()
	})
}

// Another controller that puts back what it wants, be it a field, the child's
// own annotation or that there is none, gets an answer once a minute.
func TestAnotherControllerPutsBack(t *testing.T) {
	child := deployment("till-north")
	for name, put := range map[string]struct {
		told string
		back func(w *world)
	}{
		"field": {scheduler, func(w *world) {
			w.Edit(child, func(o plan.Object) { schedule(o, "theirs") })
		}},
		"annotation": {"metadata.annotations.gridmesh.io/applied", func(w *world) {
			w.Edit(child, func(o plan.Object) {
				o["metadata"].(plan.Object)["annotations"].(plan.Object)["gridmesh.io/applied"] = "theirs"
			})
		}},
		"child":           {"keeps deleting the child", func(w *world) { w.Remove(child) }},
		"said to be gone": {"", func(w *world) { w.gone("till-north", "2000-01-01T00:00:00Z") }},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
				shops("north", "south")(c)
				update(c, mine)
			}, func(w *world) {
				w.soon()
				since, last := time.Now(), ""
				for range 1200 { // 2 minutes
					w.pass(100 * time.Millisecond)
					if version := fmt.Sprint(w.at(child, "metadata.resourceVersion")); w.Object(child) != nil && version != last {
						put.back(w)
						last = fmt.Sprint(w.at(child, "metadata.resourceVersion"))
					}
				}
				if n := len(w.changes(since)); n < 5 || n > 20 {
					t.Errorf("%d writes in 2 minutes", n)
				}
				if n := len(w.events.All()); n > 20 {
					t.Errorf("%d Events in 2 minutes:\n%s", n, strings.Join(w.events.All(), "\n"))
				}
				if _, message := w.condition(till, "Valid"); !strings.Contains(message, put.told) || put.told == "" && message != "" {
					t.Errorf("the grid says %q, want %q", message, put.told)
				}
				w.pass(10 * time.Minute)
				w.is(child, scheduler, "mine")
				if status, message := w.condition(till, "Valid"); status != "True" {
					t.Errorf("it is over, and Valid is %q: %s", status, message)
				}
				w.Edit(child, func(o plan.Object) { schedule(o, "by hand") })
				w.pass(500 * time.Millisecond)
				w.is(child, scheduler, "mine") // a hand is answered at once
				w.soon()
				w.quiet()
			})
		})
	}
}

// A unit that loses its node and has it back, and again, is nobody's quarrel: a
// child that a hand deletes then is back at once, and the grid blames nobody. Nor is
// a change that waits for its wave meanwhile.
func TestAUnitThatFlapsIsNoDispute(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"as it is": func(*world) {},
		"a change that is paused": func(w *world) {
			update(w.Cluster, inWaves, "maxUnits: 1", "paused: true, maxUnits: 1", "image: v1", "image: v2")
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
				shops("a", "b", "c")(c)
				update(c, inWaves)
			}, func(w *world) {
				w.soon()
				change(w)
				for range 4 {
					w.label("node-c", "other", "c")
					w.pass(2 * time.Second)
					w.label("node-c", "site", "c")
					w.pass(2 * time.Second)
				}
				if status, message := w.condition(till, "Valid"); status != "True" {
					t.Errorf("after the flaps Valid is %q: %s", status, message)
				}
				w.Remove(deployment("till-c"))
				w.pass(time.Second)
				w.names("Deployment", "till-a", "till-b", "till-c")
				w.pass(time.Minute)
				if status, message := w.condition(till, "Valid"); status != "True" {
					t.Errorf("after one deletion Valid is %q: %s", status, message)
				}
				if at := w.annotation(deployment("till-c"), "gridmesh.io/unit-gone-since"); at != "" {
					t.Errorf("the unit is back, and its child is marked as gone since %s", at)
				}
			})
		})
	}
}
