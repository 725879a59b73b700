package node

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/node/hold"
	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/node/outage"
	"github.com/gridmesh/gridmesh/node/statedir"
)

// Endpoints of the closed Service web: two in this unit, one in another.
const (
	onA1, onA2, onB1 = "10.244.1.5", "10.244.2.5", "10.244.9.5"
)

func unitWeb() *nodetest.Objects {
	o := nodetest.NewObjects()
	o.Closed("web", "10.96.0.10", map[string]string{"a-1": onA1, "a-2": onA2, "b-1": onB1})
	return o
}

// online has an agent that serves web, with a cloud.
func online(t *testing.T) (*rig, *nodetest.Objects) {
	t.Helper()
	r := newRig(t)
	r.api = &nodetest.API{Pods: prefixes("10.244.1.0/24")}
	r.mustStart(t)
	o := unitWeb()
	r.hear(o)
	r.wantAnswer(t, "online", onA1, onA2)
	return r, o
}

// hear feeds a snapshot that comes from the API server now.
func (r *rig) hear(o *nodetest.Objects) {
	r.contact()
	r.publish(o)
}

// cut lets the uplink be away for a time.
func (r *rig) cut(d time.Duration) {
	r.api.Set(func(a *nodetest.API) { a.Away = errBroken })
	after(d)
}

// heal brings the uplink back; nothing has come over it yet.
func (r *rig) heal() { r.api.Set(func(a *nodetest.API) { a.Away = nil }) }

// wantAnswer compares who answers for web: by Envoy, and for other processes.
func (r *rig) wantAnswer(t *testing.T, when string, want ...string) {
	t.Helper()
	r.wantEnvoy(t, when, want...)
	snap, _ := r.agent.snapshot.Get()
	var got []string
	for _, entry := range snap.Services.All() {
		for _, slice := range entry.Slices {
			for _, e := range slice.Endpoints {
				if e.Ready && e.Node != "b-1" {
					got = append(got, e.Addr.String())
				}
			}
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s: other processes are fed %v, want %v", when, got, want)
	}
}

// wantEnvoy compares who answers for web by Envoy.
func (r *rig) wantEnvoy(t *testing.T, when string, want ...string) {
	t.Helper()
	holds, _ := r.xds.Holds("10.96.0.10:80")
	var got []string
	for _, endpoint := range holds {
		got = append(got, netip.MustParseAddrPort(endpoint).Addr().String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: answered by %v, want %v", when, got, want)
	}
}

// wantHeld compares the status and the metric.
func (r *rig) wantHeld(t *testing.T, when string, want int) {
	t.Helper()
	held := r.agent.status().Held
	if (held == nil) != (want == 0) || held != nil && held.Endpoints != want {
		t.Errorf("%s: the status says %+v, want %d", when, held, want)
	}
	if n := r.metric(t, "gridmesh_held_endpoints"); n != float64(want) {
		t.Errorf("%s: %v are counted, want %d", when, n, want)
	}
}

// A heal darkens no unit: what the cloud says of its endpoints is held until
// they are back.
func TestAHealIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o := online(t)
		r.cut(time.Minute)
		r.wantAnswer(t, "cut", onA1, onA2)
		r.heal()
		o.Unready("web", onA1, onA2, onB1)
		r.hear(o)
		r.wantAnswer(t, "healed", onA1, onA2)
		r.wantHeld(t, "healed", 2)
		after(2 * time.Second)
		o.Ready("web", onA2)
		r.hear(o)
		r.wantAnswer(t, "one is back", onA1, onA2)
		r.wantHeld(t, "one is back", 1)
		o.Unready("web", onA2) // by itself, this time
		r.hear(o)
		r.wantAnswer(t, "one went again", onA1)
		o.Ready("web", onA1)
		r.hear(o)
		r.wantHeld(t, "both were back", 0)
		if n := r.api.Asked("a-2"); n != 0 {
			t.Errorf("a node that made itself heard was asked for %d times", n)
		}
		after(hold.Bound + 2*contactEvery) // a quiet cloud is asked for a word
		r.wantAnswer(t, "after the hold", onA1)
		if r.log.Count("nothing is held any more") != 1 {
			t.Error("its end is not said")
		}
	})
}

// What was deleted meanwhile goes when its node has reported, and not only with
// the next event.
func TestTheHoldEndsByItself(t *testing.T) {
	for name, tc := range map[string]struct {
		reports bool
		least   time.Duration
		most    time.Duration
	}{
		"its node reports":       {true, hold.Settle, askAfter + askWithin + 4*askPause + hold.Settle},
		"its node never reports": {false, hold.Bound, hold.Bound},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, o := online(t)
				r.cut(5 * time.Minute)
				r.heal()
				o.Gone("web", onA2)
				r.hear(o)
				r.wantAnswer(t, "healed", onA1, onA2)
				healed := time.Now()
				for r.agent.status().Held != nil && time.Since(healed) < time.Hour {
					if tc.reports {
						r.api.Renew("a-2")
					}
					r.source.Contacted(time.Now())
					after(time.Second)
				}
				took := time.Since(healed)
				if took < tc.least || took > tc.most+time.Second {
					t.Errorf("held for %s, want %s to %s", took, tc.least, tc.most)
				}
				r.wantAnswer(t, "let go", onA1)
				r.wantHeld(t, "let go", 0)
			})
		})
	}
}

// An agent that starts again while the uplink is away, or during a hold, knows
// of the outage.
func TestAHoldOutlivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o := online(t)
		after(statedir.SaveInterval)
		r.cut(2 * time.Minute)
		r.stop()
		r.again()
		r.mustStart(t)
		after(10 * time.Second)
		r.heal()
		after(5 * time.Second) // the lists take time
		o.Unready("web", onA1, onA2, onB1)
		r.hear(o)
		r.wantAnswer(t, "restarted while cut", onA1, onA2)
		r.stop()
		r.again()
		r.mustStart(t)
		r.hear(o)
		r.wantAnswer(t, "restarted during the hold", onA1, onA2)
		r.wantHeld(t, "restarted during the hold", 2)
		for range 2 * hold.Bound / time.Second {
			r.source.Contacted(time.Now())
			after(time.Second)
		}
		r.wantAnswer(t, "let go")
		if _, err := os.Stat(filepath.Join(r.cfg.StateDir, "outage")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the outage is noted for ever: %v", err)
		}
		r.stop()
		r.again()
		o.Ready("web", onA1, onA2)
		r.mustStart(t)
		r.hear(o)
		o.Unready("web", onA2)
		r.hear(o)
		r.wantAnswer(t, "restarted long after", onA1)
	})
}

// A hold does not run out while the cloud is away again, and a link that flaps
// darkens nobody; when it is stable every hold ends.
func TestAnOutageInsideAHold(t *testing.T) {
	for name, tc := range map[string]struct {
		times    int
		up, down time.Duration
	}{
		"once":    {1, 5 * time.Second, 3 * time.Minute},
		"flaps":   {48, 15 * time.Second, time.Minute},
		"at last": {1, hold.Bound - 5*time.Second, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, o := online(t)
				r.cut(10 * time.Minute)
				o.Unready("web", onA1, onA2, onB1)
				for range tc.times {
					r.heal()
					r.hear(o)
					after(tc.up)
					r.cut(tc.down)
					r.wantAnswer(t, "away again", onA1, onA2)
				}
				r.heal()
				r.hear(o)
				r.wantAnswer(t, "back", onA1, onA2)
				for range hold.Bound/time.Second + 2 {
					r.source.Contacted(time.Now())
					after(time.Second)
				}
				r.wantAnswer(t, "stable")
				r.wantHeld(t, "stable", 0)
			})
		})
	}
}

// This node's Node, deleted during the outage, takes no Service with it.
func TestADeletedNodeDarkensNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o := online(t)
		r.cut(10 * time.Minute)
		r.heal()
		o.Builder().DeleteNode("a-1")
		o.Unready("web", onA1)
		r.hear(o)
		r.wantAnswer(t, "healed", onA1, onA2)
	})
}

// After a boot the node's own pods are new.
func TestWhichStateIsHeld(t *testing.T) {
	for name, tc := range map[string]struct {
		noted string // what the record says; empty for none
		want  []string
	}{
		"nothing but the last contact": {"", []string{onA1, onA2}},
		"another boot":                 {"2026-01-02T03:04:05Z\nanother\n", []string{onA2}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, o := online(t)
				after(statedir.SaveInterval)
				r.stop()
				r.again()
				if tc.noted != "" {
					must(t, os.WriteFile(filepath.Join(r.cfg.StateDir, "outage"), []byte(tc.noted), 0o600))
				}
				r.cut(0)
				r.mustStart(t)
				after(time.Minute)
				if !r.exists("outage") {
					t.Error("not recorded")
				}
				r.heal()
				o.Unready("web", onA1, onA2)
				r.hear(o)
				r.wantAnswer(t, "healed", tc.want...)
			})
		})
	}
}

// The last contact before a boot vouches for what is on other nodes.
func TestTheLastContactBeforeABoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o := online(t)
		after(statedir.SaveInterval)
		r.stop()
		path := filepath.Join(r.cfg.StateDir, "contact")
		info, err := os.Stat(path)
		must(t, err)
		must(t, os.WriteFile(path, []byte("another\n"), 0o600))
		must(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
		r.again()
		r.kernel.Flush()
		r.cut(2 * time.Minute)
		r.mustStart(t)
		after(time.Minute)
		r.heal()
		o.Unready("web", onA1, onA2)
		r.hear(o)
		r.wantAnswer(t, "healed", onA2)
	})
}

// A clock that was set back a little since, as by the first answer of a time server or
// on a node that keeps no time while it is off, takes nothing from the last contact.
// One that was far ahead vouches for nothing.
func TestTheLastContactIsYetToCome(t *testing.T) {
	for _, tc := range []struct {
		ahead time.Duration
		want  []string
	}{
		{3 * time.Second, []string{onA1, onA2}},
		{outage.VouchFor - time.Second, []string{onA1, onA2}},
		{2 * outage.VouchFor, nil},
		{24 * time.Hour, nil},
	} {
		t.Run(tc.ahead.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, o := online(t)
				after(statedir.SaveInterval)
				r.stop()
				at := time.Now().Add(tc.ahead)
				must(t, os.Chtimes(filepath.Join(r.cfg.StateDir, "contact"), at, at))
				r.again()
				r.cut(0)
				r.mustStart(t)
				after(time.Minute)
				if known := r.metric(t, "gridmesh_last_contact_timestamp_seconds") != 0; known != (tc.want != nil) {
					t.Errorf("the last contact is known: %v", known)
				}
				r.heal()
				o.Unready("web", onA1, onA2)
				r.hear(o)
				r.wantAnswer(t, "healed", tc.want...)
			})
		})
	}
}

// A record that could not be removed is removed later.
func TestTheRecordIsRemovedAtLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o := online(t)
		r.cut(time.Minute)
		path := filepath.Join(r.cfg.StateDir, "outage")
		must(t, os.Remove(path))
		must(t, os.MkdirAll(filepath.Join(path, "full"), 0o700)) // no file, and not empty
		r.heal()
		r.hear(o)
		for range hold.Bound/time.Second + 10 {
			r.source.Contacted(time.Now())
			after(time.Second)
		}
		if n := r.log.Count("could not note the outage"); n != 1 {
			t.Errorf("said %d times", n)
		}
		must(t, os.Remove(filepath.Join(path, "full")))
		after(2 * lookEvery)
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("still there: %v", err)
		}
	})
}

// What a node said in one hold is no report in the next.
func TestAnswersAreOfOneHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReports()
		cloud := api{&nodetest.API{}}
		a := &Agent{reports: r, parts: Parts{Cluster: cloud}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.askReports(ctx) }()
		r.begin()
		r.want([]string{"a-2"}, 1)
		after(askAfter + askWithin + 2*askPause)
		cloud.Renew("a-2") // in the outage that follows
		r.begin()
		r.want([]string{"a-2"}, 1)
		after(askAfter + askWithin + 2*askPause)
		if got := r.take(); len(got) > 0 {
			t.Errorf("reported: %v", got)
		}
		cloud.Renew("a-2")
		after(askAfter + askWithin + 2*askPause)
		if got := r.take(); !slices.Equal(got, []string{"a-2"}) {
			t.Errorf("reported: %v", got)
		}
		cancel()
		must(t, <-ended)
	})
}

// Of two API servers behind one address one may be behind: what it does not know
// yet is no report, and neither is that the other one knows it.
func TestAnOlderAnswerIsNoReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReports()
		cloud := api{&nodetest.API{Behind: 1}}
		a := &Agent{reports: r, parts: Parts{Cluster: cloud}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.askReports(ctx) }()
		cloud.Renew("a-2")
		cloud.Renew("a-2")
		r.begin()
		r.want([]string{"a-2"}, 1)
		after(time.Minute)
		if got := r.take(); len(got) > 0 {
			t.Errorf("reported, though %d answers were no later than the first: %v", cloud.Asked("a-2"), got)
		}
		cloud.Renew("a-2")
		after(10 * time.Second)
		if got := r.take(); !slices.Equal(got, []string{"a-2"}) {
			t.Errorf("reported: %v", got)
		}
		cancel()
		must(t, <-ended)
	})
}

// Where there was no outage the cloud is believed at once: a quiet cluster, one
// whose link flaps, an agent that is updated.
func TestWhatIsNoOutage(t *testing.T) {
	for name, meanwhile := range map[string]func(t *testing.T, r *rig){
		"a quiet cluster": func(_ *testing.T, _ *rig) { after(10 * time.Minute) },
		"a short one": func(_ *testing.T, r *rig) {
			r.source.Contacted(time.Now())
			r.cut(outage.After - time.Second)
			r.heal()
		},
		"an update": func(t *testing.T, r *rig) {
			after(10 * time.Minute)
			r.stop()
			r.again()
			r.mustStart(t)
			after(5 * time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, o := online(t)
				meanwhile(t, r)
				o.Unready("web", onA2)
				r.hear(o)
				r.wantAnswer(t, "not ready", onA1)
				r.wantHeld(t, "not ready", 0)
			})
		})
	}
}

// A unit of a thousand nodes asks no more than a small one.
func TestReportsAreAskedForSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReports()
		a := &Agent{reports: r, parts: Parts{Cluster: api{&nodetest.API{}}}}
		r.begin()
		r.want([]string{"a-1"}, 1)
		if q, _ := r.next(0); q.wait != askPause {
			t.Errorf("a unit of 1: a pause of %s", q.wait)
		}
		r.want([]string{"a-1"}, 1000)
		if q, _ := r.next(0); q.wait != 5*time.Second {
			t.Errorf("a unit of 1000: a pause of %s", q.wait)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.askReports(ctx) }()
		after(askAfter + askWithin)
		before := a.parts.Cluster.(api).Asked("a-1")
		after(time.Minute)
		if n := a.parts.Cluster.(api).Asked("a-1") - before; n < 8 || n > 12 {
			t.Errorf("asked %d times a minute", n)
		}
		r.want(nil, 1000)
		after(time.Minute)
		n := a.parts.Cluster.(api).Asked("a-1")
		after(time.Minute)
		if again := a.parts.Cluster.(api).Asked("a-1"); again != n {
			t.Errorf("asked %d times more for nobody", again-n)
		}
		cancel()
		must(t, <-ended)
	})
}
