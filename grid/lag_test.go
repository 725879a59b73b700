package grid_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/grid/gridtest"
	"github.com/gridmesh/gridmesh/grid/plan"
)

// meanwhile calls f once, in the middle of a job: before a write to a child, and
// after those to others. The mirror tells of it before the job ends.
func meanwhile(verb gridtest.Verb, child string, f func()) func(context.Context, gridtest.Verb, plan.Ref) error {
	var done atomic.Bool
	return func(_ context.Context, v gridtest.Verb, ref plan.Ref) error {
		if v == verb && ref == deployment(child) && done.CompareAndSwap(false, true) {
			time.Sleep(time.Second)
			f()
			time.Sleep(2 * time.Second)
		}
		return nil
	}
}

// What is deleted while the job that made it still writes others is made again,
// and not taken for ready because the job was told so before.
func TestAChildDeletedWhileItsJobRunsIsMadeAgain(t *testing.T) {
	var c *gridtest.Cluster
	before := meanwhile(gridtest.Apply, "till-south", func() { c.Remove(deployment("till-north")) })
	run(t, settings{Config: gridtest.Config{AutoReady: true, Before: before}}, func(cluster *gridtest.Cluster) {
		c = cluster
		shops("north", "south")(c)
		update(c, tillGrid)
	}, func(w *world) {
		w.pass(10 * time.Second)
		w.names("Deployment", "till-north", "till-south")
		w.is(till, "status.readyUnits", 2)
		w.quiet()
	})
}

// A mirror whose watch broke may see neither that a child was made nor that it
// was deleted: what was written and is not seen is asked for.
func TestAChildThatTheMirrorNeverSees(t *testing.T) {
	run(t, settings{Config: gridtest.Config{AutoReady: true, Lag: 10 * time.Second}}, func(c *gridtest.Cluster) {
		shops("north", "south")(c)
		update(c, tillGrid)
		c.Rewatch()
	}, func(w *world) {
		w.pass(time.Second)
		w.names("Deployment", "till-north", "till-south")
		w.Remove(deployment("till-north"))
		w.Rewatch()
		w.pass(2 * time.Minute)
		w.names("Deployment", "till-north", "till-south")
		w.is(till, "status.readyUnits", 2)
		w.quiet()
	})
}

// An object that has come since a removal, of the same name, is not the one that
// was removed: it is kept in line.
func TestARemovedChildsSuccessorIsNotBeingDeleted(t *testing.T) {
	north := deployment("till-north")
	var c *gridtest.Cluster
	var removed plan.Object
	before := meanwhile(gridtest.Delete, "till-south", func() {
		if c.Object(north) != nil {
			t.Error("till-north is not removed yet: this test shows nothing")
		}
		c.Node("node-north", "site", "north")
		c.UpdateObject("kubectl", removed)
	})
	run(t, settings{Config: gridtest.Config{AutoReady: true, Before: before}, guard: plan.Guard{Grace: time.Minute, Share: 1}}, func(cluster *gridtest.Cluster) {
		c = cluster
		shops("north", "south", "west")(c)
		update(c, tillGrid)
	}, func(w *world) {
		w.soon()
		removed = c.Object(north)
		delete(removed["metadata"].(plan.Object), "resourceVersion")
		w.label("node-north", "other", "x")
		w.label("node-south", "other", "x")
		w.pass(10 * time.Minute)
		w.names("Deployment", "till-north", "till-west")
		update(w.Cluster, tillGrid, "image: v1", "image: v2")
		w.soon()
		if containers := fmt.Sprint(w.at(north, "spec.template.spec.containers")); !strings.Contains(containers, "v2") {
			t.Errorf("what came after the removed child is not kept in line: %s", containers)
		}
		w.quiet()
	})
}

// asks are when and for what the API server was asked since a time, by kind.
func (w *world) asks(kind string, since time.Time) map[time.Time][]string {
	at := map[time.Time][]string{}
	for _, c := range w.Calls(func(c gridtest.Call) bool {
		return c.Verb == gridtest.Live && c.Ref.Kind == kind && c.At.After(since)
	}) {
		at[c.At] = append(at[c.At], c.Ref.Name)
	}
	return at
}

// However much the mirror does not show, what is asked at a time is bounded, and
// each is asked for in its turn.
func TestWhatIsNotShownIsAskedForInTurn(t *testing.T) {
	var units []string
	for i := range 230 {
		units = append(units, fmt.Sprint("u", i))
	}
	run(t, settings{Config: gridtest.Config{AutoReady: true, Lag: 100 * time.Hour}}, func(c *gridtest.Cluster) {
		shops(units...)(c)
		update(c, tillGrid)
		c.Rewatch()
	}, func(w *world) {
		w.pass(20 * time.Second)
		written := time.Now()
		w.pass(100 * time.Second)
		seen := map[string]bool{}
		for at, names := range w.asks("Deployment", written) {
			for _, name := range names {
				seen[name] = true
			}
			if len(names) > 200 {
				t.Errorf("asked for %d children at %s", len(names), at)
			}
		}
		if len(seen) != len(units) {
			t.Errorf("asked for %d of %d children", len(seen), len(units))
		}
	})
}

// A kind that may not be asked for keeps no other kind from it.
func TestAKindThatMayNotBeAskedFor(t *testing.T) {
	var units []string
	for i := range 40 {
		units = append(units, fmt.Sprint("u", i))
	}
	var forbid atomic.Bool
	before := func(_ context.Context, v gridtest.Verb, ref plan.Ref) error {
		if forbid.Load() && v == gridtest.Live && ref.Kind == "Deployment" {
			return errors.New("forbidden")
		}
		return nil
	}
	run(t, settings{Config: gridtest.Config{AutoReady: true, Lag: 100 * time.Hour, Before: before}}, func(c *gridtest.Cluster) {
		shops(units...)(c)
		update(c, tillGrid)
		update(c, `{apiVersion: superedge.io/v1, kind: ServiceGrid, metadata: {name: till}, spec: {gridUniqKey: site, template: {ports: [{port: 80}]}}}`)
		c.Rewatch()
	}, func(w *world) {
		w.pass(20 * time.Second)
		w.names("Service", "till-svc")
		forbid.Store(true)
		w.Remove(plan.Ref{Kind: "Service", Namespace: "default", Name: "till-svc"})
		w.pass(100 * time.Second)
		w.names("Service", "till-svc")
	})
}
