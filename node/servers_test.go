package node

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/source"
)

var (
	serverA, serverB = netip.MustParseAddr("10.1.0.5"), netip.MustParseAddr("10.2.0.5")
	overA            = prefixes("10.1.0.0/16", "10.96.0.0/16")
)

// refusesOverA reports an error where the range over A is in force, or that is not told.
func refusesOverA(t *testing.T, r *rig, when string) {
	t.Helper()
	after(time.Minute)
	if rules, _ := r.kernel.InForce(); !slices.Equal(rules.Guard, prefixes("10.96.0.0/16")) {
		t.Errorf("%s: guarded are %v", when, rules.Guard)
	}
	if got := r.agent.status().Findings; !slices.ContainsFunc(got, func(f capture.Finding) bool { return strings.Contains(f.Text, "10.1.0.0/16 is not in force") }) {
		t.Errorf("%s: found %v", when, got)
	}
}

// An API server that answered the process before is one, also where it is away and another answers this one.
func TestAServerThatAnsweredBefore(t *testing.T) {
	for name, later := range map[string]bool{"with the first snapshot": false, "when nothing changes": true} {
		for _, boot := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.cfg.ServiceCIDRs, r.api = nil, &nodetest.API{Pods: prefixes("10.244.1.0/24"), At: []netip.Addr{serverA}}
				o := webOnly()
				if later {
					r.api.At = []netip.Addr{serverB}
				} else {
					o.Builder().SetServiceCIDRs(overA)
				}
				r.mustStart(t)
				r.publish(o)
				if after(time.Minute); later {
					r.api.Set(func(a *nodetest.API) { a.At = []netip.Addr{serverB, serverA} })
					after(time.Minute)
				} else {
					refusesOverA(t, r, name)
				}
				o.Builder().SetServiceCIDRs(overA)
				for range 2 { // and it is kept for the one after that
					r.stop()
					if r.again(); boot {
						r.boots()
					}
					r.api.Set(func(a *nodetest.API) { a.At = []netip.Addr{serverB} })
					r.source.Publish(o.Snapshot())
					r.mustStart(t)
					refusesOverA(t, r, name)
				}
				if got := r.saved(t).Servers; !slices.Equal(slices.SortedFunc(slices.Values(got), netip.Addr.Compare), []netip.Addr{serverA, serverB}) {
					t.Errorf("%s: kept are %v", name, got)
				}
			})
		}
	}
}

// So it is where a slow disk says so, after a snapshot: what was let in meanwhile goes, and is not there again after the
// next start either.
func TestAServerThatASlowDiskKnows(t *testing.T) {
	for _, boot := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.cfg.ServiceCIDRs, r.api = nil, &nodetest.API{Pods: prefixes("10.244.1.0/24"), At: []netip.Addr{serverA}}
			o := webOnly()
			o.Builder().SetServiceCIDRs(overA)
			r.mustStart(t)
			r.publish(o)
			refusesOverA(t, r, "before")
			o.Closed("mine", "10.3.0.9", map[string]string{"a-2": "10.244.2.9"})
			o.Closed("theirs", serverA.String(), map[string]string{"a-2": "10.244.2.9"})
			for range 2 {
				r.stop()
				if r.again(); boot {
					r.boots()
				}
				r.api.Set(func(a *nodetest.API) { a.At = []netip.Addr{serverB} })
				giveState, giveNotes := r.hanging()
				r.source.Publish(o.Snapshot())
				r.mustStart(t)
				after(time.Minute)
				giveState()
				giveNotes()
				after(time.Minute)
				guarded(t, r, prefixes("10.3.0.9/32", "10.96.0.0/16")...)
				if got := r.agent.status().Findings; !slices.ContainsFunc(got, func(f capture.Finding) bool { return strings.Contains(f.Text, "10.1.0.0/16 is not in force") }) {
					t.Errorf("found %v", got)
				}
				r.publish(o)
				after(time.Minute)
				guarded(t, r, prefixes("10.3.0.9/32", "10.96.0.0/16")...)
				r.readState, r.notes = nil, nil
			}
		})
	}
}

// Behind a proxy on each node the endpoints of the API server's Service say where it is. Those of no other do.
func TestServersBehindAProxy(t *testing.T) {
	for _, name := range []string{"kubernetes", "mine"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.cfg.ServiceCIDRs, r.api = nil, &nodetest.API{Pods: prefixes("10.244.1.0/24"), At: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}
			o := webOnly()
			o.Builder().SetServiceCIDRs(overA)
			o.Plain(name, "10.96.0.1", map[string]string{"": serverA.String()})
			r.source.Publish(o.Snapshot())
			r.mustStart(t)
			if name == "kubernetes" {
				refusesOverA(t, r, name)
				return
			}
			after(time.Minute)
			guarded(t, r, overA...)
			// What is guarded stays so, whatever is written to those endpoints.
			o.Plain("kubernetes", "10.96.0.2", map[string]string{"": serverA.String()})
			r.publish(o)
			after(time.Minute)
			guarded(t, r, overA...)
		})
	}
}

// A flag over the API server that a run before heard is refused beside its rules, and after a boot what was guarded is:
// by its name nobody can say where it is before the guard. One that was in force stays so.
func TestAFlagOverTheAPIServer(t *testing.T) {
	over := prefixes("10.1.0.0/16")
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{Pods: prefixes("10.244.1.0/24"), At: []netip.Addr{serverA}}
		servedBefore(t, r)
		r.cfg.ServiceCIDRs = over
		if err := r.start(t); !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), "--service-cidr 10.1.0.0/16 has 10.1.0.5 in it, where the API server is; give --service-cidr") {
			t.Errorf("beside the rules: %v", err)
		}
		guarded(t, r, serviceRange)
		for range 2 {
			r.boots()
			r.mustStart(t)
			after(time.Minute)
			guarded(t, r, serviceRange)
			r.wantServed(t, "after a boot", webFrontend)
			if got := r.agent.status().Findings; len(got) != 1 || !strings.HasPrefix(got[0].Text, "--service-cidr 10.1.0.0/16 is not in force") {
				t.Errorf("found %v", got)
			}
			r.stop()
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.cfg.ServiceCIDRs, r.api = over, &nodetest.API{Pods: prefixes("10.244.1.0/24"), At: []netip.Addr{serverA}}
		o := webOnly()
		o.Builder().SetServiceCIDRs(overA)
		for _, begin := range []func(){func() {}, r.again, r.boots} {
			begin()
			r.mustStart(t)
			r.publish(o)
			after(time.Minute)
			guarded(t, r, overA...)
			r.stop()
		}
	})
}

// No more are kept than a few, the newest of them.
func TestServersThatAreKeptAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{}
		r.mustStart(t)
		r.publish(webOnly())
		last := netip.MustParseAddr("192.0.2.1")
		for range 100 {
			last = last.Next()
			r.api.Set(func(a *nodetest.API) { a.At = []netip.Addr{last} })
			after(10 * time.Second)
		}
		after(time.Hour)
		if got := r.saved(t).Servers; len(got) != mostServers || got[mostServers-1] != last {
			t.Errorf("kept are %v", got)
		}
	})
}

// Of a node that was moved to another control plane, the address of the one before is a server for a while only, by
// the answers of others alone. As long as it is one, the finding says which, and how to have it forgotten.
func TestAServerThatAnsweredLongAgo(t *testing.T) {
	const day = 24 * time.Hour
	for name, tc := range map[string]struct {
		ago   time.Duration
		dated bool
		at    []netip.Addr
		gone  bool
	}{
		"nobody has for long":      {40 * day, true, []netip.Addr{serverB}, true},
		"not so long ago":          {20 * day, true, []netip.Addr{serverB}, false},
		"long ago, as nobody else": {40 * day, true, nil, false},
		"long ago, and now":        {40 * day, true, []netip.Addr{serverB, serverA}, false},
		"by a clock ahead":         {-40 * day, true, []netip.Addr{serverB}, false},
		"by an agent of before":    {40 * day, false, []netip.Addr{serverB}, false},
	} {
		for _, late := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.cfg.ServiceCIDRs, r.api = nil, &nodetest.API{Pods: prefixes("10.244.1.0/24"), At: []netip.Addr{serverA}}
				servedBefore(t, r)
				st := r.saved(t)
				if st.Answered = nil; tc.dated {
					st.Answered = []int64{time.Now().Add(-tc.ago).Unix()}
				}
				data, err := source.EncodeState(st)
				must(t, errors.Join(err, os.WriteFile(filepath.Join(r.cfg.StateDir, source.StateFile), data, 0o600)))
				o := webOnly()
				o.Builder().SetServiceCIDRs(overA)
				o.Plain("new", "10.1.0.9", map[string]string{"a-1": "10.244.1.9"})
				r.api.At = tc.at
				if late {
					r.api.At = nil
				}
				r.source.Publish(o.Snapshot())
				r.mustStart(t)
				if late {
					refusesOverA(t, r, name)
					r.api.Set(func(a *nodetest.API) { a.At = tc.at })
				}
				after(time.Minute)
				if tc.gone {
					refusesOverA(t, r, name+", and it may answer yet")
					after(day + time.Hour)
					guarded(t, r, overA...)
					r.wantServed(t, name, "10.1.0.9:80/tcp", webFrontend)
					after(time.Hour)
					if got := r.saved(t).Servers; !slices.Equal(got, tc.at) {
						t.Errorf("%s: kept are %v", name, got)
					}
					return
				}
				refusesOverA(t, r, name)
				if got := r.agent.status().Findings; len(got) != 1 || !strings.Contains(got[0].Text, "answered from 10.1.0.5: if none is there any more, this ends 30 days after its last answer, or stop") {
					t.Errorf("%s: found %v", name, got)
				}
			})
		}
	}
}

// An answer that a clock ahead noted is none of the future: it ends as long after as any.
func TestAnAnswerOfTheFuture(t *testing.T) {
	const year = 365 * 24 * time.Hour
	now := time.Now()
	list := serversKept(&source.State{Servers: []netip.Addr{serverA, serverB}, Answered: []int64{now.Add(10 * year).Unix(), now.Unix()}})
	for days := 1; days <= 31; days++ {
		list = newestServers(list, []answerer{{serverB, now.Add(time.Duration(days) * serverNoted)}})
	}
	if got := answered(list); !slices.Equal(got, []netip.Addr{serverB}) {
		t.Errorf("after 31 days there are %v", got)
	}
}

// One that answers goes on as one, and the state file is written for it once a day.
func TestAServerThatGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{At: []netip.Addr{serverA}}
		r.mustStart(t)
		r.publish(webOnly())
		after(time.Hour)
		began := r.saved(t).Answered
		after(20 * time.Hour)
		if got := r.saved(t).Answered; len(began) != 1 || !slices.Equal(got, began) {
			t.Errorf("noted %v, and %v within a day", began, got)
		}
		after(5 * time.Hour)
		if got := r.saved(t).Answered; len(got) != 1 || got[0]-began[0] < 24*3600 {
			t.Errorf("noted %v, and %v after a day", began, got)
		}
	})
}
