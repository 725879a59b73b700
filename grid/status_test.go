package grid_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/grid/gridtest"
	"github.com/gridmesh/gridmesh/grid/plan"
)

// A rollout's progress costs a write of the status a second, however often its
// units move; in waves two more for each wave, which are written at once: they
// hold what the next decision follows from.
func TestProgressCostsFewStatuses(t *testing.T) {
	const units = 20
	for name, tc := range map[string]struct {
		rollout string
		every   time.Duration
		most    int
	}{
		"all at once": {"", 200 * time.Millisecond, 6}, // 20 bursts in 4 s, the first, the last
		// A status knows whole seconds: a wave is ready from the next one on.
		"in waves": {"\n  rollout: {maxUnits: 1, pauseSeconds: 0}\n", 3 * time.Second, 3*units + 2},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, settings{}, func(c *gridtest.Cluster) {
				var names []string
				for i := range units {
					names = append(names, fmt.Sprintf("u%02d", i))
				}
				shops(names...)(c)
				update(c, tillGrid+tc.rollout)
			}, func(w *world) {
				w.soon()
				for i := range units {
					w.RollOut(deployment(fmt.Sprintf("till-u%02d", i)))
				}
				w.soon()
				since := time.Now()
				update(w.Cluster, tillGrid+tc.rollout, "image: v1", "image: v2")
				for i := range units {
					w.pass(tc.every)
					if got := w.running(fmt.Sprintf("u%02d", i)); got != "v2" {
						t.Errorf("%s after the wave before was ready, unit %d runs %s", tc.every, i, got)
					}
					w.RollOut(deployment(fmt.Sprintf("till-u%02d", i)))
				}
				w.soon()
				w.is(till, "status.updatedUnits", units)
				writes := w.Calls(func(c gridtest.Call) bool { return c.Verb == gridtest.WriteStatus && !c.At.Before(since) })
				if len(writes) > tc.most {
					t.Errorf("%d writes of the status, want at most %d", len(writes), tc.most)
				}
				w.quiet()
			})
		})
	}
}

// A status that somebody else writes over, as a leader whose last write comes late,
// is written again, and that is all.
func TestAStatusThatIsWrittenOverComesBack(t *testing.T) {
	run(t, settings{Config: gridtest.Config{AutoReady: true}}, func(c *gridtest.Cluster) {
		shops("north", "south")(c)
		update(c, tillGrid)
	}, func(w *world) {
		w.pass(time.Minute)
		w.is(till, "status.units", 2)
		w.Edit(till, func(o plan.Object) { o["status"].(plan.Object)["units"] = int64(7) })
		w.is(till, "status.units", 7)
		w.pass(2 * resync)
		w.is(till, "status.units", 2)
		w.quiet()
	})
}

// resync is how often every grid is looked at.
const resync = 30 * time.Second

// What an API server does not keep of a status, as one with older CRDs, is written once
// more, and not again and again; and what others write over it comes back all the same.
func TestAStatusThatIsNotKeptWholeIsWrittenOnceMore(t *testing.T) {
	drop := func(obj plan.Object) {
		if status, ok := obj["status"].(plan.Object); ok && obj["kind"] == till.Kind {
			delete(status, "readyUnits")
		}
	}
	run(t, settings{Config: gridtest.Config{AutoReady: true, Mutate: drop}}, func(c *gridtest.Cluster) {
		shops("north", "south")(c)
		update(c, tillGrid)
	}, func(w *world) {
		w.pass(3 * resync)
		w.quiet()
		for range 2 {
			w.Edit(till, func(o plan.Object) { o["status"].(plan.Object)["units"] = int64(7) })
			w.pass(3 * resync)
			w.is(till, "status.units", 2)
		}
		w.quiet()
	})
}

// A mirror that is long behind calls for one write more, and not for one after the
// other.
func TestAMirrorThatIsLongBehindCostsOneStatus(t *testing.T) {
	run(t, settings{Config: gridtest.Config{AutoReady: true, Lag: 20 * time.Minute}}, func(c *gridtest.Cluster) {
		shops("north", "south")(c)
		update(c, tillGrid)
		c.Rewatch()
	}, func(w *world) {
		w.pass(5 * time.Second)
		w.is(till, "status.units", 2)
		since := time.Now()
		w.pass(19 * time.Minute)
		writes := w.Calls(func(c gridtest.Call) bool { return c.Verb == gridtest.WriteStatus && !c.At.Before(since) })
		if len(writes) > 2 {
			t.Errorf("%d writes of the status", len(writes))
		}
		w.pass(time.Hour)
		w.is(till, "status.units", 2)
		w.quiet()
	})
}

// Who watches metrics sees a rollout that stopped or is paused and a grid that is
// invalid, for as long as it is so.
func TestWhatAGridWaitsForIsAMetric(t *testing.T) {
	run(t, settings{}, func(c *gridtest.Cluster) {
		shops("a", "b")(c)
		update(c, inWaves)
	}, func(w *world) {
		is := func(want string) {
			t.Helper()
			got := w.states()
			if len(got) != 3 {
				t.Errorf("the states are %v", got)
			}
			for state, so := range got {
				if so != (state == want) {
					t.Errorf("%s is %v, and the grid is to be %q", state, so, want)
				}
			}
		}
		w.soon()
		w.RollOut(deployment("till-a"))
		w.RollOut(deployment("till-b"))
		w.soon()
		update(w.Cluster, inWaves, "image: v1", "image: v2")
		w.pass(9 * time.Minute)
		is("")
		w.pass(2 * time.Minute)
		is("stopped")
		update(w.Cluster, inWaves, "image: v1", "image: v2", "maxUnits: 1", "maxUnits: 1, paused: true")
		w.RollOut(deployment("till-a"))
		w.soon()
		is("paused")
		update(w.Cluster, inWaves, "image: v1", "image: v2", "gridUniqKey: site", "gridUniqKey: '-'")
		w.soon()
		is("invalid")
		w.Remove(till)
		w.soon()
		if all := w.states(); len(all) > 0 {
			t.Errorf("the grid is gone, and has %v", all)
		}
	})
}

// states are those of gridmesh_grid_state, by name, and whether the grid is in them.
func (w *world) states() map[string]bool {
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Error(err)
	}
	in := map[string]bool{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == "gridmesh_grid_state" && l.GetName() == "state" {
					in[l.GetValue()] = m.GetGauge().GetValue() == 1
				}
			}
		}
	}
	return in
}
