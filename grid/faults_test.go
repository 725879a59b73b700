package grid_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gridmesh/gridmesh/grid/gridtest"
	"github.com/gridmesh/gridmesh/grid/plan"
)

// What a hand changes between plan and write is not undone by the write: it is
// planned anew, and nobody is told of a failure.
func TestAConflictPlansAnew(t *testing.T) {
	var w *world
	var hand atomic.Bool
	before := func(_ context.Context, verb gridtest.Verb, ref plan.Ref) error {
		if verb == gridtest.Apply && ref == deployment("till-north") && hand.CompareAndSwap(true, false) {
			w.Edit(ref, func(o plan.Object) {
				o["metadata"].(plan.Object)["labels"].(plan.Object)["superedge.io/grid-selector"] = "other"
			})
		}
		return nil
	}
	run(t, settings{Config: gridtest.Config{AutoReady: true, Before: before}}, func(c *gridtest.Cluster) {
		shops("north")(c)
		update(c, tillGrid)
	}, func(running *world) {
		w = running
		w.soon()
		hand.Store(true)
		update(w.Cluster, tillGrid, "image: v1", "image: v2")
		w.soon()
		if hand.Load() {
			t.Fatal("nothing was applied")
		}
		labels, _ := w.at(deployment("till-north"), "metadata.labels").(plan.Object)
		if containers := fmt.Sprint(w.at(deployment("till-north"), "spec.template.spec.containers")); labels["superedge.io/grid-selector"] != "other" || !strings.Contains(containers, "v1") {
			t.Errorf("what the hand did was undone: labels %v, %s", labels, containers)
		}
		w.event("Released: let go of the child of unit north")
		w.noEvent("Failed")
		if n := w.failures(); n != 0 {
			t.Errorf("%g failures", n)
		}
		w.quiet()
	})
}

// A write that fails is tried again after 1, 2, 4 seconds and so on, at most a
// minute; other units and grids go on.
func TestErrorsAreRetried(t *testing.T) {
	var failing atomic.Bool
	failing.Store(true)
	var mu sync.Mutex
	var tries []time.Time // of one unit
	before := func(_ context.Context, verb gridtest.Verb, ref plan.Ref) error {
		if verb != gridtest.Apply || ref != deployment("till-north") {
			return nil
		}
		mu.Lock()
		tries = append(tries, time.Now())
		mu.Unlock()
		if failing.Load() {
			return apierrors.NewInternalError(errors.New("etcd is away"))
		}
		return nil
	}
	run(t, settings{Config: gridtest.Config{AutoReady: true, Before: before}}, func(c *gridtest.Cluster) {
		shops("north", "south")(c)
		update(c, tillGrid)
		update(c, tillGrid, "name: till,", "name: other,")
	}, func(w *world) {
		w.pass(500 * time.Millisecond)
		w.names("Deployment", "other-north", "other-south", "till-south")
		w.event("Failed: 1 writes failed, and are tried again: Internal error occurred: etcd is away")
		w.pass(4 * time.Minute)
		mu.Lock()
		for i := 2; i < len(tries); i++ {
			last, wait := tries[i-1].Sub(tries[i-2]), tries[i].Sub(tries[i-1])
			// What goes well, as the status that tells of the failure, counts too.
			if want := min(2*last, time.Minute); wait.Round(time.Second) != want.Round(time.Second) && (wait.Round(time.Second) != time.Second || i > 3) {
				t.Errorf("try %d came %s after the one before, want %s", i, wait, want)
			}
		}
		if len(tries) < 8 || int(w.failures()) != len(tries) {
			t.Errorf("%d tries, %g failures", len(tries), w.failures())
		}
		mu.Unlock()
		failing.Store(false)
		w.pass(time.Minute)
		w.names("Deployment", "other-north", "other-south", "till-north", "till-south")
		w.quiet()
	})
}

// refuse has the API server refuse one Deployment for good.
func refuse(name string) func(context.Context, gridtest.Verb, plan.Ref) error {
	return func(_ context.Context, verb gridtest.Verb, ref plan.Ref) error {
		if verb == gridtest.Apply && ref == deployment(name) {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, ref.Name, field.ErrorList{field.Required(field.NewPath("spec", "x"), "it must be")})
		}
		return nil
	}
}

// What the API server refuses for good is a problem of the grid, with the API
// server's own words, until the spec changes; that is tried at once.
func TestARefusalIsAProblem(t *testing.T) {
	var refusing atomic.Bool
	refusing.Store(true)
	before := func(_ context.Context, verb gridtest.Verb, ref plan.Ref) error {
		if verb == gridtest.Apply && ref.Kind == "Deployment" && refusing.Load() {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, ref.Name, field.ErrorList{field.Required(field.NewPath("spec", "x"), "it must be")})
		}
		return nil
	}
	run(t, settings{Config: gridtest.Config{AutoReady: true, Before: before}}, func(c *gridtest.Cluster) {
		shops("north", "south")(c)
		update(c, tillGrid)
	}, func(w *world) {
		w.pass(250 * time.Second) // by now it is tried once a minute
		status, message := w.condition(till, "Valid")
		want := "unit north, south: the API server refuses the child: spec.x: Required value: it must be; correct the template, or what forbids it"
		if status != "False" || message != want {
			t.Errorf("Valid is %q: %s", status, message)
		}
		refusing.Store(false)
		update(w.Cluster, tillGrid, "image: v1", "image: v2")
		w.soon()
		if status, message := w.condition(till, "Valid"); status != "True" {
			t.Errorf("Valid is %q: %s", status, message)
		}
		w.names("Deployment", "till-north", "till-south")
	})
}

// Where the status holds what a successor must know, and cannot be written,
// nothing else is either.
func TestTheStatusGoesFirst(t *testing.T) {
	var away atomic.Bool
	before := func(_ context.Context, verb gridtest.Verb, _ plan.Ref) error {
		if verb == gridtest.WriteStatus && away.Load() {
			return apierrors.NewServiceUnavailable("later")
		}
		return nil
	}
	run(t, settings{Config: gridtest.Config{AutoReady: true, Before: before}}, func(c *gridtest.Cluster) {
		shops("a", "b")(c)
		update(c, inWaves)
	}, func(w *world) {
		w.pass(5 * time.Minute)
		away.Store(true)
		update(w.Cluster, inWaves, "image: v1", "image: v2")
		since := time.Now()
		w.pass(5 * time.Minute)
		for _, call := range w.written(since) {
			if call.Ref.Kind == "Deployment" {
				t.Errorf("%s %s", call.Verb, call.Ref)
			}
		}
		if n := w.failures(); n < 5 {
			t.Errorf("%g failures are counted in five minutes", n)
		}
		away.Store(false)
		w.pass(10 * time.Minute)
		w.is(till, "status.updatedUnits", 2)
	})
}

// A mirror that is behind does not make the controller write twice, or fight
// with itself.
func TestALaggingMirror(t *testing.T) {
	for _, lag := range []time.Duration{10 * time.Millisecond, 150 * time.Millisecond, 3 * time.Second} {
		t.Run(lag.String(), func(t *testing.T) {
			run(t, settings{Config: gridtest.Config{AutoReady: true, Lag: lag}}, func(c *gridtest.Cluster) {
				shops("a", "b", "c", "d")(c)
				update(c, tillGrid)
			}, func(w *world) {
				w.pass(time.Minute)
				since := time.Now()
				update(w.Cluster, tillGrid, "image: v1", "image: v2")
				w.pass(500 * time.Millisecond) // the mirror will show the first write after the second
				update(w.Cluster, tillGrid, "image: v1", "image: v3")
				w.pass(time.Minute)
				applied := map[plan.Ref]int{}
				for _, call := range w.Calls(func(c gridtest.Call) bool { return c.Verb == gridtest.Apply && !c.At.Before(since) }) {
					applied[call.Ref]++
				}
				if len(applied) != 6 { // four children and two revisions
					t.Errorf("applied %v", applied)
				}
				for ref, n := range applied {
					if want := map[string]int{"Deployment": 2, "ControllerRevision": 1}[ref.Kind]; n != want {
						t.Errorf("%s was applied %d times, want %d", ref, n, want)
					}
				}
				w.noEvent("Failed")
				w.quiet()
			})
		})
	}
}

// Who leads no longer writes no longer, even where a write is on its way; a
// successor finds all it needs.
func TestLeaderLoss(t *testing.T) {
	var slow atomic.Bool
	slow.Store(true)
	before := func(ctx context.Context, verb gridtest.Verb, ref plan.Ref) error {
		if verb != gridtest.Apply || ref.Kind != "Deployment" || !slow.Load() {
			return nil
		}
		select {
		case <-time.After(time.Second):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s := settings{Config: gridtest.Config{AutoReady: true, Before: before}}
	var units []string
	for i := range 20 {
		units = append(units, fmt.Sprintf("u%02d", i))
	}
	run(t, s, func(c *gridtest.Cluster) {
		shops(units...)(c)
		update(c, tillGrid)
	}, func(w *world) {
		w.pass(2500 * time.Millisecond)
		made := len(w.Names("Deployment"))
		if made == 0 || made == len(units) {
			t.Fatalf("%d children", made)
		}
		w.stop()
		since := time.Now()
		w.pass(time.Hour)
		if n := len(w.Names("Deployment")); n != made || len(w.written(since)) != 0 {
			t.Errorf("%d children, %d before; written: %v", n, made, w.written(since))
		}
		w.noEvent("Failed")
		slow.Store(false)
		w.lead(s)
		w.soon()
		if n := len(w.Names("Deployment")); n != len(units) {
			t.Errorf("the successor made %d children", n)
		}
		w.is(till, "status.readyUnits", len(units))
		w.quiet()
	})
}

// No more writes to children of a namespace are on their way at once than a quarter of
// what is allowed, over all its grids.
func TestWritesAreBounded(t *testing.T) {
	const parallel = 16
	var now, most atomic.Int64
	before := func(_ context.Context, verb gridtest.Verb, ref plan.Ref) error {
		if verb == gridtest.Apply && ref.Kind == "Deployment" {
			n := now.Add(1)
			defer now.Add(-1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			time.Sleep(100 * time.Millisecond)
		}
		return nil
	}
	run(t, settings{Config: gridtest.Config{AutoReady: true, Before: before}, parallel: parallel}, func(c *gridtest.Cluster) {
		shops("a", "b", "c", "d", "e", "f", "g", "h")(c)
		for i := range 6 {
			update(c, tillGrid, "name: till,", fmt.Sprintf("name: till%d,", i))
		}
	}, func(w *world) {
		w.pass(time.Minute)
		if n := len(w.Names("Deployment")); n != 48 || most.Load() != parallel/4 {
			t.Errorf("%d children, %d at once", n, most.Load())
		}
	})
}

// A change of one grid costs no other: nothing of it is planned or written.
func TestWorkFollowsWhatChanged(t *testing.T) {
	run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
		shops("a", "b")(c)
		for i := range 50 {
			update(c, tillGrid, "name: till,", fmt.Sprintf("name: till%d,", i))
		}
	}, func(w *world) {
		w.soon()
		w.pass(15 * time.Second) // between two looks at everything
		plans := w.plans()
		update(w.Cluster, tillGrid, "name: till,", "name: till7,", "image: v1", "image: v2")
		since := time.Now()
		w.pass(3 * time.Second)
		for _, call := range w.written(since) {
			if !strings.Contains(call.Ref.Name, "till7") {
				t.Errorf("%s %s", call.Verb, call.Ref)
			}
		}
		if n := w.plans() - plans; n == 0 || n > 10 {
			t.Errorf("%d plans", n)
		}
	})
}

// A child that is deleted between its write and the note that a webhook had the last word,
// and made by somebody else: what is not the grid's is not written to.
func TestANoteIsWrittenOnTheChildAlone(t *testing.T) {
	var cluster *gridtest.Cluster
	var taken atomic.Bool
	const theirs = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: till-a, namespace: default, labels: {mine: too}}, spec: {selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: {containers: []}}}}"
	run(t, settings{Config: gridtest.Config{
		AutoReady: true,
		Mutate: func(obj plan.Object) {
			if obj["kind"] == "Deployment" {
				schedule(obj, "other")
			}
		},
		Before: func(_ context.Context, verb gridtest.Verb, ref plan.Ref) error {
			if verb == gridtest.Merge && ref == deployment("till-a") && !taken.Swap(true) {
				cluster.Remove(ref)
				cluster.Update("kubectl", theirs)
			}
			return nil
		},
	}}, func(c *gridtest.Cluster) {
		cluster = c
		shops("a")(c)
		update(c, tillGrid, "spec: {containers", "spec: {schedulerName: mine, containers")
	}, func(w *world) {
		w.pass(time.Minute)
		if !taken.Load() {
			t.Error("no note was written")
		}
		w.is(deployment("till-a"), "metadata.annotations", nil)
		w.noEvent("Failed")
		w.is(till, "status.readyUnits", 1) // by a child of another name
		w.quiet()
	})
}
