package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/node/outage"
	"github.com/gridmesh/gridmesh/node/statedir"
	"github.com/gridmesh/gridmesh/source"
)

// hanging has the next process read from a disk that hangs until each of the two
// is called.
func (r *rig) hanging() (giveState, giveNotes func()) {
	state, notes := make(chan struct{}), make(chan struct{})
	r.readState = func(path string) (*source.State, error) { <-state; return source.ReadState(path) }
	r.notes = func(b statedir.Notebook) (outage.Noted, outage.Note) { <-notes; return b.Read() }
	return func() { close(state); synctest.Wait() }, func() { close(notes); synctest.Wait() }
}

// A disk that hangs keeps no node from its guard: neither its lock nor what is read
// is waited for longer than a second, all of it together.
func TestTheGuardWaitsForNoDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.runBefore(t)
		r.kernel.Flush()
		giveState, giveNotes := r.hanging()
		r.api = &nodetest.API{Pods: prefixes("10.244.1.0/24")}
		lock := make(chan struct{})
		r.lock = func(string) (func(), error) { <-lock; return func() {}, nil }
		began := time.Now()
		r.mustStart(t)
		if took := time.Since(began); took > time.Second {
			t.Errorf("the guard is in force after %s", took)
		}
		if rules, there := r.kernel.InForce(); !there || len(rules.Guard) == 0 {
			t.Errorf("in force is %+v", rules)
		}
		if n := r.log.Count("slow to give"); n != 2 {
			t.Errorf("said %d times", n)
		}
		r.hear(webAndOther())
		r.wantServed(t, "beside a disk that hangs", webFrontend, otherFrontend)
		after(2 * statedir.Patience)
		if got := r.unkept(); !strings.Contains(got, atomicfile.ErrLate.Error()) || r.log.Count("gives nothing that was kept there") != 1 {
			t.Errorf("said: %q", got)
		}
		if !r.agent.liveness(time.Now()).Healthy {
			t.Error("the loop does not beat")
		}
		close(lock)
		giveState()
		giveNotes()
		after(2 * statedir.SaveInterval)
		if got := r.unkept(); got != "" || r.saved(t).Snapshot.Services.Len() != 2 {
			t.Errorf("with the disk back: %q, saved %+v", got, r.saved(t))
		}
	})
}

// A last good state that comes late serves, where nothing newer does, and what a
// run before used is preloaded; it neither takes anything back nor is it written
// over before it was read.
func TestAStateThatComesLate(t *testing.T) {
	for name, live := range map[string]bool{"before the source": false, "behind it": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.api = &nodetest.API{Pods: prefixes("10.244.1.0/24")}
				r.mustStart(t)
				o := webOnly()
				o.Plain("far", "10.96.0.12", map[string]string{"b-1": "10.244.9.7"})
				r.hear(o)
				r.xds.Ask("10.96.0.12:80")
				after(2 * statedir.SaveInterval)
				r.stop()
				r.kernel.Flush()
				r.again()
				giveState, giveNotes := r.hanging()
				giveNotes()
				r.api = &nodetest.API{Away: errBroken}
				r.mustStart(t)
				r.xds.Connect("1.40.0")
				if live {
					o.Delete("web")
					r.publish(o)
					after(2 * statedir.SaveInterval)
					r.wantServed(t, "live", "10.96.0.12:80/tcp")
					if n := r.saved(t).Snapshot.Services.Len(); n != 2 {
						t.Errorf("the state was written over before it was read: %d Services", n)
					}
				}
				giveState()
				if _, holds := r.xds.Holds("10.96.0.12:80"); !holds {
					t.Error("what was used is not preloaded")
				}
				if live {
					r.wantServed(t, "late", "10.96.0.12:80/tcp")
					after(2 * statedir.SaveInterval)
					if n := r.saved(t).Snapshot.Services.Len(); n != 1 {
						t.Errorf("saved are %d Services", n)
					}
					return
				}
				r.wantServed(t, "late", webFrontend, "10.96.0.12:80/tcp")
				if rules, _ := r.kernel.InForce(); !slices.Equal(rules.Pods, prefixes("10.244.1.0/24")) {
					t.Errorf("pods: %v", rules.Pods)
				}
			})
		})
	}
}

// Pod CIDRs of a disk that is late never take the place of those that the own Node
// has, whichever comes first, and also where both come in one moment.
func TestPodCIDRsThatComeLate(t *testing.T) {
	kept, now := prefixes("10.244.1.0/24"), prefixes("10.244.2.0/24")
	for name, nodeFirst := range map[string]bool{"behind the Node's answer": true, "before it": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.api = &nodetest.API{Pods: kept}
				r.mustStart(t)
				r.publish(webOnly())
				after(2 * statedir.SaveInterval)
				r.stop()
				r.kernel.Flush()
				r.again()
				giveState, giveNotes := r.hanging()
				giveNotes()
				r.api = &nodetest.API{Away: errBroken}
				r.mustStart(t)
				answer := func() {
					r.api.Set(func(a *nodetest.API) { a.Away, a.Pods = nil, now })
					after(2 * podCIDRsSoon)
				}
				if nodeFirst {
					answer()
				}
				giveState()
				if !nodeFirst {
					answer()
				}
				if rules, _ := r.kernel.InForce(); !slices.Equal(rules.Pods, now) {
					t.Errorf("pods: %v, want %v", rules.Pods, now)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		for range 5000 {
			l := &loop{Agent: &Agent{parts: Parts{Cluster: api{&nodetest.API{Pods: now}}}}}
			ctx, cancel := context.WithCancel(t.Context())
			begin := make(chan struct{})
			go func() { <-begin; l.knowPods(kept) }()
			go func() { <-begin; _ = l.followOwnNode(ctx) }()
			close(begin)
			synctest.Wait()
			if got, _ := l.podCIDRs.Get(); !slices.Equal(got, now) {
				t.Fatalf("in one moment: %v, want %v", got, now)
			}
			cancel()
			synctest.Wait()
		}
	})
}

// Notes and a state that come late, in whatever order, before the heal or after it,
// say the same as those that come at once: what the cloud says of this unit is held.
// None of them is written over before it was read.
func TestNotesThatComeLate(t *testing.T) {
	const state, notes, heal = "state", "notes", "heal"
	for _, order := range [][]string{
		{state, notes, heal}, {notes, state, heal}, {state, heal, notes}, {notes, heal, state}, {heal, notes, state}, {heal, state, notes},
	} {
		for _, cut := range []time.Duration{10 * time.Second, time.Minute} { // before the restart: vouched for, and recorded
			t.Run(strings.Join(order, ", ")+" "+cut.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r, o := online(t)
					after(statedir.SaveInterval + contactEvery)
					r.cut(cut)
					giveState, giveNotes := r.hanging()
					r.restart(t, true, 0)
					after(time.Minute)
					if r.exists("outage") != (cut > outage.After) {
						t.Error("an unread record was written over")
					}
					for _, step := range order {
						switch step {
						case state:
							giveState()
						case notes:
							giveNotes()
						case heal:
							r.heal()
							o.Unready("web", onA1, onA2, onB1)
							r.hear(o)
						}
						after(5 * time.Second)
					}
					r.wantAnswer(t, "all of it is known", onA1, onA2)
					r.wantHeld(t, "all of it is known", 2)
					after(2 * time.Minute)
					r.source.Contacted(time.Now())
					after(2 * time.Minute)
					r.wantHeld(t, "after the hold", 0)
					if r.exists("outage") {
						t.Error("the outage is noted for ever")
					}
				})
			})
		}
	}
}

// A hold that begins late and holds nothing keeps nothing from being preloaded.
func TestAHoldThatComesLateAndHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o := online(t)
		o.Plain("far", "10.96.0.12", map[string]string{"b-1": "10.244.9.7"})
		r.hear(o)
		r.xds.Ask("10.96.0.12:80")
		after(statedir.SaveInterval + contactEvery)
		r.cut(time.Minute)
		giveState, giveNotes := r.hanging()
		r.restart(t, true, 0)
		giveNotes()
		r.xds.Connect("1.40.0")
		r.heal()
		r.hear(o)
		if _, holds := r.xds.Holds("10.96.0.12:80"); holds {
			t.Fatal("it is preloaded before anybody knows that it was used")
		}
		giveState()
		if r.log.Count("is held until their nodes have reported") == 0 {
			t.Fatal("no hold began")
		}
		r.wantHeld(t, "nothing is said against the unit", 0)
		if _, holds := r.xds.Holds("10.96.0.12:80"); !holds {
			t.Error("what was used is not preloaded")
		}
	})
}

// What a process heard of an outage itself is newer than what others noted.
func TestNotesThatComeTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o := online(t)
		after(statedir.SaveInterval + contactEvery)
		r.cut(time.Minute)
		giveState, giveNotes := r.hanging()
		r.restart(t, true, 0)
		r.heal()
		o.Gone("web", onA2)
		r.hear(o)
		r.wantAnswer(t, "believed", onA1)
		after(10 * time.Minute) // the hold would be over
		giveState()
		giveNotes()
		r.wantAnswer(t, "too late", onA1)
		r.wantHeld(t, "too late", 0)
		r.cut(time.Minute) // an outage of its own
		r.heal()
		o.Unready("web", onA1)
		r.hear(o)
		r.wantAnswer(t, "its own outage", onA1)
		r.wantHeld(t, "its own outage", 1)
	})
}

// unreadable has the next processes fail to read the state file until it is called.
func (r *rig) unreadable(t *testing.T) (give func()) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	var readable atomic.Bool
	r.readState = func(path string) (*source.State, error) {
		if !readable.Load() {
			path = filepath.Join(file, "state") // which is no error of what is read
		}
		return source.ReadState(path)
	}
	return func() { readable.Store(true) }
}

// A last good state that cannot be read is tried again, and not written over before
// it was: what hinders for a moment costs nothing. Where it lasts, the file is set
// aside only where a newer one is to take its place: it may be all that a node knows.
func TestAStateThatCannotBeRead(t *testing.T) {
	for name, tc := range map[string]struct {
		live, others, aside bool
		until               time.Duration // it can be read
	}{
		"without a cloud":                         {until: 5 * time.Minute},
		"without a cloud, and for long":           {until: time.Hour},
		"with one":                                {live: true, until: 5 * time.Minute},
		"with one, and for long":                  {live: true, until: time.Hour, aside: true},
		"with one, and another agent's meanwhile": {live: true, until: time.Hour, others: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.runBefore(t)
				r.kernel.Flush()
				give := r.unreadable(t)
				said := "does not give the last good state that is kept there (not a directory)"
				if tc.others {
					said = "is another gridmesh-agent's"
					fault := error(unix.EROFS)
					r.lock = func(string) (func(), error) { defer func() { fault = run.ErrInUse }(); return nil, fault }
				}
				saved := func() int {
					if !r.exists("state") {
						return 0
					}
					return r.saved(t).Snapshot.Services.Len()
				}
				r.mustStart(t)
				if tc.live {
					r.publish(webAndOther())
				}
				after(5 * time.Minute)
				if n := saved(); n != 1 {
					t.Errorf("the state was written over before it was read: %d Services", n)
				}
				if n := r.log.Count("the last good state"); n != 1 {
					t.Errorf("said %d times", n)
				}
				after(tc.until - 5*time.Minute)
				if got := r.unkept(); !tc.aside && !strings.Contains(got, said) || r.exists("state.bad") != tc.aside {
					t.Errorf("after %s: %q, set aside: %v", tc.until, got, r.exists("state.bad"))
				}
				give()
				after(10 * time.Minute)
				services, left := 1, ""
				if tc.others {
					left = said
				} else if tc.live {
					services = 2
				}
				if got := r.unkept(); !strings.Contains(got, left) || (got == "") != (left == "") || r.exists("state.bad") != tc.aside {
					t.Errorf("at last: %q, set aside: %v", got, r.exists("state.bad"))
				}
				if n := saved(); n != services {
					t.Errorf("saved are %d Services", n)
				}
				if !tc.live {
					r.wantServed(t, "read again", webFrontend)
					return
				}
				r.wantServed(t, "live", webFrontend, otherFrontend)
			})
		})
	}
}

// While the last good state cannot be read an outage is noted as ever, and what a
// hold is to begin with once it is read is not forgotten.
func TestAnOutageBesideAStateThatCannotBeRead(t *testing.T) {
	for _, kill := range []bool{false, true} {
		for name, before := range map[string]bool{"an outage meanwhile": false, "an outage before, and a heal": true} {
			t.Run(fmt.Sprintf("%s, killed %v", name, kill), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r, o := online(t)
					after(statedir.SaveInterval + contactEvery)
					if before {
						r.cut(time.Minute)
					}
					give := r.unreadable(t)
					r.restart(t, kill, 0)
					if before {
						r.heal()
					}
					r.hear(o)
					after(contactEvery)
					if !before {
						r.cut(time.Minute)
					}
					if !r.exists("outage") {
						t.Error("the outage is not noted")
					}
					give()
					r.restart(t, kill, 0)
					r.heal()
					o.Unready("web", onA1, onA2, onB1)
					r.hear(o)
					r.wantAnswer(t, "healed", onA1, onA2)
					r.wantHeld(t, "healed", 2)
				})
			})
		}
	}
}
