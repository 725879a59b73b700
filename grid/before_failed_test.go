package grid_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gridmesh/gridmesh/grid/gridtest"
	"github.com/gridmesh/gridmesh/grid/plan"
)

// What a new unit begins with may be refused, or fail, where the change is not: that says
// nothing of the change, which is tried in its turn, at once.
func TestWhatFailsBeforeItsTurnDoesNotStopTheChange(t *testing.T) {
	for name, err := range map[string]error{
		"refused for good": apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "till-z", nil),
		"fails for now":    apierrors.NewInternalError(context.DeadlineExceeded),
	} {
		t.Run(name, func(t *testing.T) {
			var since atomic.Int64
			run(t, settings{Config: gridtest.Config{AutoReady: true, Before: func(_ context.Context, verb gridtest.Verb, ref plan.Ref) error {
				if verb == gridtest.Apply && ref == deployment("till-z") && time.Now().Unix() < since.Load() {
					return err
				}
				return nil
			}}}, func(c *gridtest.Cluster) {
				shops("a", "b", "c", "zz")(c)
				update(c, inWaves)
			}, func(w *world) {
				w.pass(time.Hour)
				update(w.Cluster, inWaves, "pauseSeconds: 60", "pauseSeconds: 300", "image: v1", "image: v2")
				w.soon()
				since.Store(time.Now().Add(14*time.Minute + 50*time.Second).Unix()) // a has it, then b, c, and z at its turn
				shops("z")(w.Cluster)
				for range 14 {
					w.pass(time.Minute)
					w.noEvent("RolloutStopped")
				}
				if got := w.running("a", "b", "c"); got != "v2v2v2" {
					t.Errorf("the units run %s", got)
				}
				w.pass(3 * time.Minute)
				w.noEvent("RolloutStopped")
				if got := w.running("z"); got != "v2" {
					t.Errorf("unit z runs %s", got)
				}
			})
		})
	}
}

// To delete a child that the change failed on is to try again there, also where that takes
// until its pods are gone.
func TestToDeleteInTheForegroundIsTheCure(t *testing.T) {
	var refusing atomic.Bool
	run(t, settings{Config: gridtest.Config{AutoReady: true, Before: func(ctx context.Context, verb gridtest.Verb, ref plan.Ref) error {
		if refusing.Load() && verb == gridtest.Apply && (ref == deployment("till-a") || ref == deployment("till-b")) {
			return refuse(ref.Name)(ctx, verb, ref)
		}
		return nil
	}}}, func(c *gridtest.Cluster) {
		shops("a", "b", "c", "d")(c)
		update(c, inWaves, "maxUnits: 1", "maxUnits: 2")
	}, func(w *world) {
		w.pass(time.Hour)
		refusing.Store(true)
		update(w.Cluster, inWaves, "maxUnits: 1", "maxUnits: 2", "image: v1", "image: v2")
		w.pass(time.Minute)
		w.event("RolloutStopped")
		w.Edit(deployment("till-a"), func(o plan.Object) {
			o["metadata"].(plan.Object)["deletionTimestamp"] = time.Now().UTC().Format(time.RFC3339)
		})
		w.pass(30 * time.Second)
		refusing.Store(false)
		w.Remove(deployment("till-a"))
		w.soon()
		if got := w.running("a"); got != "v2" {
			t.Errorf("the unit runs %s", got)
		}
	})
}
