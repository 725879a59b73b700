package plan

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/internal/testkit"
)

// leader is what plans in a cluster of one grid: a wall clock that somebody
// sets, and a monotonic one that nobody can.
type leader struct {
	*cluster
	start time.Time     // with a monotonic reading
	up    time.Duration // since start
	ahead time.Duration // of the wall clock
	guard Guard
}

var tillRef = Ref{"DeploymentGrid", "default", "till"}

// newLeader plans for a grid with a child in each of four units, in waves of one
// where rollout says so.
func newLeader(rollout Object) *leader {
	l := &leader{cluster: newCluster(1), start: time.Now()}
	for _, unit := range []string{"a", "b", "c", "d"} {
		l.label(unit, unit)
	}
	l.image("v1", rollout)
	l.takeOver(0)
	for range 20 {
		l.pass(time.Minute)
		l.work()
	}
	return l
}

func (l *leader) label(node, unit string) {
	l.set(Object{
		"apiVersion": "v1", "kind": "Node", "metadata": Object{"name": node, "labels": Object{"site": unit}},
		"status": Object{"conditions": []any{Object{"type": "Ready", "status": "True"}}},
	})
}

func (l *leader) image(image string, rollout Object) {
	metadata := Object{"name": "till", "namespace": "default", "uid": "u", "generation": int64(1)}
	if old := l.objects[tillRef]; old != nil {
		metadata["generation"] = integer(old, 0, "metadata", "generation") + 1
	}
	template := l.workloadTemplate("till")
	ensure(template, "template", "spec")["containers"] = []any{Object{"name": "c", "image": image}}
	delete(template, "replicas")
	grid := Object{"apiVersion": "superedge.io/v1", "kind": tillRef.Kind, "metadata": metadata, "spec": Object{"gridUniqKey": "site", "template": template}}
	if rollout != nil {
		ensure(grid, "spec")["rollout"] = rollout
	}
	l.set(grid)
}

// takeOver begins with what the API server has, and the wall clock so far ahead.
func (l *leader) takeOver(ahead time.Duration) {
	l.ahead, l.x = ahead, NewIndex()
	for _, obj := range l.objects {
		l.x.Set(obj)
	}
	l.tell()
	l.guard = Guard{Grace: testGuard.Grace, Share: testGuard.Share, Since: l.now}
}

// tell sets now to what time.Now returns on a machine whose wall clock was set:
// the monotonic reading is as it would have been. Nothing but the machine's own
// clock makes such times, so the seconds of the wall are moved where they stand
// (type Time in time/time.go).
func (l *leader) tell() {
	l.now = l.start.Add(l.up)
	*(*uint64)(unsafe.Pointer(&l.now)) += uint64(l.ahead/time.Second) << 30
}

// pass lets time pass, plans, and carries the plan out 50 ms later.
func (l *leader) pass(d time.Duration) Plan {
	l.up += d
	l.tell()
	p, _ := l.x.Plan(tillRef, l.guard, l.now)
	l.up += 50 * time.Millisecond
	l.tell()
	l.carryOut([]Plan{p})
	return p
}

// removed lets time pass in short steps, up to d, until a child is removed, and
// says how long that took.
func (l *leader) removed(d time.Duration) (time.Duration, bool) {
	for since := l.up; l.up < since+d; {
		if removals(l.pass(5*time.Second)) > 0 {
			return l.up - since, true
		}
	}
	return d, false
}

func removals(p Plan) (n int) {
	for _, s := range p.Steps {
		if s.Action == Remove {
			n++
		}
	}
	return n
}

// A clock that is set while a unit is gone ends no grace, neither its own nor
// that between two removals.
func TestAClockThatIsSetEndsNoGrace(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, 365 * 24 * time.Hour, -time.Hour, 4 * time.Minute, -2 * time.Minute} {
		t.Run(by.String(), func(t *testing.T) {
			l := newLeader(nil)
			l.label("d", "dd")
			l.label("c", "cc")
			l.pass(0)
			l.pass(4 * time.Second)
			l.ahead += by
			took, ok := l.removed(8 * time.Minute)
			if grace := l.guard.Grace - 5*time.Second; !ok || took < grace {
				t.Errorf("removed: %t, after %s", ok, took)
			}
			l.ahead += by
			took, ok = l.removed(8 * time.Minute)
			if !ok || took < l.guard.Grace-time.Second {
				t.Errorf("the next removed: %t, after %s", ok, took)
			}
		})
	}
}

// What a leader whose clock was ahead has left in a status and on children keeps
// the next one from no removal.
func TestARemovalThatIsYetToComeIsNotBelieved(t *testing.T) {
	l := newLeader(nil)
	l.takeOver(365 * 24 * time.Hour)
	l.label("d", "dd")
	l.label("c", "cc")
	if took, ok := l.removed(6 * time.Minute); !ok {
		t.Fatalf("none removed after %s", took)
	}
	l.takeOver(0)
	if took, ok := l.removed(6 * time.Minute); !ok || took < l.guard.Grace {
		t.Errorf("removed: %t, after %s", ok, took)
	}
	if at := l.x.records[tillRef].workload.LastRemoval; at.Sub(l.now) > time.Second {
		t.Errorf("the last removal was %s from now", at.Sub(l.now))
	}
}

// What such a leader has left of a wave does not keep the next one from going on:
// neither since when it is ready, nor since when its units are not.
func TestAWaveThatIsYetToComeIsNotBelieved(t *testing.T) {
	waves := Object{"maxUnits": int64(1), "pauseSeconds": int64(60), "progressDeadlineSeconds": int64(600), "maxFailedUnits": int64(1)}
	for name, ready := range map[string]bool{"ready": true, "not ready": false} {
		t.Run(name, func(t *testing.T) {
			l := newLeader(waves)
			l.takeOver(365 * 24 * time.Hour)
			l.image("v2", waves)
			l.pass(time.Second)
			if ready {
				for range 5 {
					l.work()
				}
			}
			if l.pass(time.Second); ready == (l.x.records[tillRef].workload.Rollout.ReadySince == nil) {
				t.Fatal("the wave is not as it is to be")
			}
			l.takeOver(0)
			l.pass(time.Second)
			if at := l.x.records[tillRef].workload.Rollout; ready && at.ReadySince.Sub(l.now) > time.Second {
				t.Errorf("the wave is ready %s from now", at.ReadySince.Sub(l.now))
			}
			begins := func(d time.Duration) bool {
				for until := l.up + d; l.up < until; {
					for _, e := range l.pass(5 * time.Second).Events {
						if e.Reason == "WaveBegins" {
							return true
						}
					}
				}
				return false
			}
			soon, late := 50*time.Second, 20*time.Second
			if !ready {
				soon, late = 590*time.Second, 90*time.Second // the deadline, and the pause
			}
			if begins(soon) {
				t.Errorf("the next wave begins within %s", soon)
			}
			if !begins(late) {
				t.Errorf("the next wave does not begin within %s", soon+late)
			}
		})
	}
}

// Over random histories of leaders and clocks: no child is removed before its
// unit was gone for the grace, none within the grace of another removal, and
// once the clocks are let alone every one goes in time.
func TestClockLaws(t *testing.T) {
	total := 0
	for seed := range testkit.Histories(40) {
		l, r := newLeader(nil), rand.New(rand.NewPCG(seed, 2))
		units := []string{"a", "b", "c", "d", "lost"}
		gone, last, count := map[string]time.Duration{}, -time.Hour, 0
		check := func(d time.Duration) {
			for _, unit := range units {
				if _, known := gone[unit]; l.x.units.of("site")[unit] != nil {
					delete(gone, unit)
				} else if !known {
					gone[unit] = l.up
				}
			}
			p := l.pass(d)
			at := l.up - 50*time.Millisecond
			if n := removals(p); n > 1 || n > 0 && at-last < l.guard.Grace {
				t.Fatalf("seed %d: %d removed %s after the one before", seed, n, at-last)
			}
			for _, s := range p.Steps {
				since, known := gone[s.Unit]
				if s.Action == Remove {
					last, count = at, count+1
					if !known || at-since < l.guard.Grace {
						t.Fatalf("seed %d: unit %s is removed %s after it was gone", seed, s.Unit, at-since)
					}
				}
			}
		}
		clock := func() time.Duration { return time.Duration(r.IntN(4000)-2000) * time.Second }
		for range 60 {
			switch unit := pick(r, units[:4]); r.IntN(6) {
			case 0:
				l.label(unit, unit)
			case 1:
				l.label(unit, "lost")
			case 2:
				l.ahead += clock()
			case 3:
				if r.IntN(3) == 0 {
					l.takeOver(clock())
				}
			}
			check(time.Duration(r.IntN(100)) * time.Second)
		}
		for range 5 * 12 { // at most two graces for each, where a clock was set back
			check(time.Minute)
		}
		for _, unit := range slices.Sorted(maps.Keys(gone)) {
			if child := l.objects[Ref{"Deployment", "default", "till-" + unit}]; child != nil {
				t.Errorf("seed %d: the child of unit %s is still there, gone since %s, at %s", seed, unit, value[string](child, "metadata", "annotations", names.UnitGone), l.now)
			}
		}
		total += count
	}
	if total < 10 {
		t.Errorf("%d were removed: the histories are too tame", total)
	}
}

// A clock that is set during a wave neither shortens what it soaks for, nor has it be overdue;
// and each takes the time that it would have taken.
func TestAClockThatIsSetShortensNoWave(t *testing.T) {
	waves := Object{"maxUnits": int64(1), "pauseSeconds": int64(600), "progressDeadlineSeconds": int64(600)}
	for name, ready := range map[string]bool{"soaks": true, "not ready": false} {
		for ahead, another := range map[time.Duration]bool{0: false, time.Hour: false, 9 * time.Minute: false, -time.Hour: false, 365 * 24 * time.Hour: false, -2 * time.Hour: true} {
			t.Run(name+" "+ahead.String(), func(t *testing.T) {
				l := newLeader(waves)
				l.image("v2", waves)
				l.pass(time.Second)
				if ready {
					for range 5 {
						l.work()
					}
				}
				l.pass(time.Second)
				if ready == (l.x.records[tillRef].workload.Rollout.ReadySince == nil) {
					t.Fatal("the wave is not as it is to be")
				}
				since, done := l.up, ""
				if another { // takes over, and its clock is behind
					l.takeOver(ahead)
				}
				for l.ahead = ahead; done == "" && l.up-since < time.Hour; {
					for _, e := range l.pass(5 * time.Second).Events {
						if e.Reason == "WaveBegins" || e.Reason == "RolloutStopped" {
							done = e.Reason
						}
					}
				}
				want, took := map[bool]string{true: "WaveBegins", false: "RolloutStopped"}[ready], l.up-since
				if done != want || took < 595*time.Second || took > 620*time.Second {
					t.Errorf("%q after %s, want %s after ten minutes", done, took, want)
				}
			})
		}
	}
}
