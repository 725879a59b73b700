package node

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/node/statedir"
)

// What is refused is refused before Envoy forgets it, and Envoy knows, and has
// taken, what it is to be handed.
func TestRetractUpdateExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		r.wantHealthy(t, "before the first snapshot", false)
		r.journal.Take()
		r.publish(webOnly())
		r.wantJournal(t, "first", "Retract", "Update", "Await("+webCluster+")", "Extend", "Update")
		r.wantServed(t, "first", webFrontend)
		r.wantHealthy(t, "in line", true)
		o := webAndOther()
		o.Delete("web")
		r.publish(o)
		r.wantJournal(t, "second", "Retract", "Update", "Await("+otherCluster+")", "Extend")
		r.wantServed(t, "second", otherFrontend)
	})
}

func TestAFailedWriteIsTriedAgain(t *testing.T) {
	for method, want := range map[string][]string{
		"Retract": {"Retract", "Update"},
		"Extend":  {"Retract", "Update", "Await(" + otherCluster + ")", "Extend"},
	} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.mustStart(t)
				r.publish(webOnly())
				r.journal.Take()
				r.capture.Fail(method, errBroken)
				o := webAndOther()
				o.Delete("web")
				r.publish(o)
				r.wantJournal(t, "failed", want...)
				r.wantHealthy(t, "failed", false)
				if got := r.agent.status().Error; got != errBroken.Error() {
					t.Errorf("the status says %q", got)
				}
				// Envoy asks for something: that does not make the kernel right.
				r.xds.Ask("10.96.0.11:80")
				synctest.Wait()
				r.wantHealthy(t, "failed, and asked", false)
				after(repairEvery)
				r.wantServed(t, "repaired", otherFrontend)
				r.wantHealthy(t, "repaired", true)
				if n := r.metric(t, "gridmesh_capture_failures_total"); n != 1 {
					t.Errorf("%v failures are counted, want 1", n)
				}
				r.journal.Take()
				after(repairEvery)
				r.wantJournal(t, "nothing is wrong any more", "RefreshBridges", "Repair")
			})
		})
	}
}

func TestRulesOfOthersDoingComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		r.publish(webOnly())
		r.kernel.Flush()
		after(repairEvery)
		r.wantServed(t, "repaired", webFrontend)
		if n := r.metric(t, "gridmesh_capture_repairs_total"); n != 1 || r.log.Count("changed by somebody else") != 1 {
			t.Errorf("%v repairs are counted", n)
		}
	})
}

func TestLinksAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		r.journal.Take()
		r.links <- struct{}{}
		synctest.Wait()
		r.wantJournal(t, "a link changed", "RefreshBridges", "Repair")
	})
}

// A watch that does not begin, or ends by itself, begins again with the pace, and is
// said once.
func TestTheWatchBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var began []chan struct{}
		failing := 2
		r.watch = func(ctx context.Context) (<-chan struct{}, error) {
			if failing > 0 {
				failing--
				return nil, errBroken
			}
			watch := make(chan struct{}, 1)
			if began = append(began, watch); len(began) > 1 {
				context.AfterFunc(ctx, func() { close(watch) })
			}
			return watch, nil
		}
		r.mustStart(t)
		after(3 * repairEvery)
		if len(began) != 1 || r.log.Count("cannot watch the kernel") != 1 {
			t.Fatalf("began %d times, said %d times", len(began), r.log.Count("cannot watch the kernel"))
		}
		close(began[0]) // as where its socket ends
		after(2 * repairEvery)
		if len(began) != 2 || r.log.Count("cannot watch the kernel") != 2 || r.log.Count("is watched again") != 2 {
			t.Fatalf("began %d times", len(began))
		}
		r.journal.Take()
		began[1] <- struct{}{}
		synctest.Wait()
		r.wantJournal(t, "something changed", "RefreshBridges", "Repair")
	})
}

// The end of the loop is the end of what watches links for it.
func TestTheEndWaitsForTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		r.publish(webOnly())
		if r.stop(); !r.ended.Load() {
			t.Error("the watch outlives the loop")
		}
	})
}

// A Service that Envoy asked for is preloaded from then on, also after a
// restart of the agent.
func TestUsedOnDemandIsPreloadedAndSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		r.xds.Connect("1.40.0")
		o := nodetest.NewObjects()
		o.Closed("web", "10.96.0.10", map[string]string{"a-2": "10.244.2.5"})
		o.Plain("far", "10.96.0.12", map[string]string{"b-1": "10.244.9.7"})
		const far = "10.96.0.12:80"
		r.publish(o)
		if _, holds := r.xds.Holds(far); holds {
			t.Fatal("Envoy holds what it did not ask for")
		}
		r.xds.Ask(far, "10.96.0.99:80") // the second is no Service
		synctest.Wait()
		if n := r.agent.status().Preloaded; n != 2 {
			t.Errorf("%d clusters are preloaded, want 2", n)
		}
		after(statedir.SaveInterval)
		r.stop()
		r.again()
		r.kernel.Flush()
		r.mustStart(t)
		r.xds.Connect("1.40.0")
		if endpoints, holds := r.xds.Holds(far); !holds || len(endpoints) != 1 {
			t.Errorf("after a restart Envoy holds %v, %v", endpoints, holds)
		}
		r.wantServed(t, "after a restart", webFrontend, "10.96.0.12:80/tcp")
	})
}

func TestStopLeavesTheRulesInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		r.publish(webOnly())
		r.journal.Take()
		r.stop()
		r.wantJournal(t, "a stop calls nothing")
		r.wantServed(t, "stopped", webFrontend)
	})
}

// The times at which changes began are counted once, and when they are in force: not
// while a write fails, and not at all where something is held.
func TestProgrammingDuration(t *testing.T) {
	const metric = "kubeproxy_network_programming_duration_seconds"
	synctest.Test(t, func(t *testing.T) {
		r, o := online(t)
		want := func(when string, n float64) {
			t.Helper()
			if got := r.metric(t, metric); got != n {
				t.Errorf("%s: %v changes are counted, want %v", when, got, n)
			}
		}
		r.capture.Fail("Retract", errBroken)
		o.Builder().AddTrigger(time.Now())
		o.Closed("more", "10.96.0.11", map[string]string{"a-2": "10.244.2.6"})
		r.hear(o)
		want("a write failed", 0)
		after(repairEvery)
		want("repaired", 1)
		o.Builder().AddTrigger(time.Now())
		o.Builder().AddTrigger(time.Now())
		o.Delete("more")
		r.hear(o)
		want("at once", 3)
		r.cut(time.Minute)
		r.heal()
		o.Builder().AddTrigger(time.Now())
		o.Gone("web", onA2)
		r.hear(o)
		r.wantHeld(t, "healed", 1)
		want("held", 3)
		for range 12 {
			after(time.Minute)
			r.source.Contacted(time.Now())
		}
		after(time.Minute)
		r.wantHeld(t, "at last", 0)
		want("let go", 3)
		o.Builder().AddTrigger(time.Now())
		o.Gone("web", onB1)
		r.hear(o)
		want("as before", 4)
	})
}
