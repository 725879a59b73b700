package grid_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gridmesh/gridmesh/grid/gridtest"
	"github.com/gridmesh/gridmesh/grid/plan"
)

// flood has a kubelet give its own Node a new value of the unit key each second.
func (w *world) flood(node string, values int) {
	for i := range values {
		w.Node(node, "site", fmt.Sprintf("v-%02d", i))
		w.pass(time.Second)
	}
}

// A kubelet that changes the label of its own Node again and again has few children made;
// those go after the grace without a share of what is removed, and sites that are gone
// keep theirs.
func TestAKubeletThatKeepsChangingItsUnit(t *testing.T) {
	run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
		shops("a", "b", "c")(c)
		update(c, tillGrid)
	}, func(w *world) {
		w.soon()
		w.Node("node-d", "site", "d")
		w.pass(time.Second)
		w.names("Deployment", "till-a", "till-b", "till-c", "till-d") // a new unit lives at once
		w.pass(10 * time.Minute)

		w.flood("node-d", 40)
		if n := len(w.Names("Deployment")); n > 4+10 {
			t.Errorf("%d children of 40 values", n-4)
		}
		w.event("UnitsWait: more than 10 units came within 5m0s")
		if n := w.told("UnitsWait"); n != 1 {
			t.Errorf("it is told of %d times", n)
		}
		if status, message := w.condition(till, "Ready"); status != "False" {
			t.Errorf("Ready is %q: %s", status, message)
		}
		w.pass(35 * time.Second)
		if names := strings.Join(w.Names("Deployment"), " "); !strings.Contains(names, "till-v-39") {
			t.Errorf("the value that stands has no child: %s", names)
		}

		w.Node("node-a", "stie", "a")
		w.Node("node-b", "stie", "b")
		w.pass(6 * time.Minute) // d is gone for longer than a and b, and all the others
		w.names("Deployment", "till-a", "till-b", "till-c", "till-v-39")
		w.pass(5 * time.Minute)
		if n := len(w.Names("Deployment")); n != 3 {
			t.Errorf("%d children: of a and b one goes at a time", n)
		}
	})
}

// After a restart of the controller nobody knows how long a unit was there: its child
// counts as a site's.
func TestWhatCameAndWentBeforeARestart(t *testing.T) {
	s := settings{Config: gridtest.Config{AutoReady: true}}
	run(t, s, func(c *gridtest.Cluster) {
		shops("a", "b")(c)
		update(c, tillGrid)
	}, func(w *world) {
		w.soon()
		w.flood("node-b", 5)
		w.soon()
		w.stop()
		w.lead(s)
		w.pass(6 * time.Minute)
		if n := len(w.Names("Deployment")); n != 2+5-1 {
			t.Errorf("%d children: one goes at a time", n)
		}
	})
}

// Many sites that are new at once wait for half a minute, and all units of a grid that is
// new for nothing.
func TestManySitesComeAtOnce(t *testing.T) {
	run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
		shops("a")(c)
		update(c, tillGrid)
	}, func(w *world) {
		w.soon()
		var units []string
		for i := range 60 {
			units = append(units, fmt.Sprintf("shop-%02d", i))
		}
		shops(units...)(w.Cluster)
		update(w.Cluster, tillGrid, "name: till,", "name: other,")
		w.pass(3 * time.Second)
		of := func(grid string) (n int) {
			for _, name := range w.Names("Deployment") {
				if strings.HasPrefix(name, grid+"-") {
					n++
				}
			}
			return n
		}
		if n, others := of("till"), of("other"); n != 11 || others != 61 {
			t.Errorf("at once: %d children of the grid that was there, %d of the new one", n, others)
		}
		w.pass(30 * time.Second)
		if n := of("till"); n != 61 {
			t.Errorf("after half a minute: %d children", n)
		}
		if status, message := w.condition(till, "Ready"); status != "True" {
			t.Errorf("Ready is %q: %s", status, message)
		}
		w.Remove(deployment("till-shop-07"))
		w.pass(time.Second)
		if n := of("till"); n != 61 {
			t.Errorf("after one was deleted by hand: %d children", n)
		}
		w.soon()
		w.quiet()
	})
}

// A spec that is mended makes no unit new: all that could not be made is made at once.
func TestAMendedGridMakesAllAtOnce(t *testing.T) {
	var units []string
	for i := range 15 {
		units = append(units, fmt.Sprintf("shop-%02d", i))
	}
	var refusing atomic.Bool
	refusing.Store(true)
	before := func(_ context.Context, verb gridtest.Verb, ref plan.Ref) error {
		if verb == gridtest.Apply && ref.Kind == "Deployment" && refusing.Load() {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, ref.Name, errors.New("by a policy"))
		}
		return nil
	}
	run(t, settings{Config: gridtest.Config{AutoReady: true, Before: before}}, func(c *gridtest.Cluster) {
		shops(units...)(c)
		update(c, tillGrid)
	}, func(w *world) {
		w.pass(time.Minute)
		refusing.Store(false)
		update(w.Cluster, tillGrid, "image: v1", "image: v2")
		w.pass(3 * time.Second)
		if n := len(w.Names("Deployment")); n != 15 {
			t.Errorf("%d children", n)
		}
	})
}
