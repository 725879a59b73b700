package node

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/topology"
)

// openRig is a node with both paths, and what Envoy is on it.
func openRig(t *testing.T) (*rig, *atomic.Int32) {
	r := newRig(t)
	envoy := r.withKernelPath(topology.DatapathAuto)
	r.mustStart(t)
	r.publish(webOnly())
	return r, envoy
}

func (r *rig) wantAbsent(t *testing.T, when string, absent bool) {
	t.Helper()
	rules, _ := r.kernel.InForce()
	want := map[bool]float64{true: 1}[absent]
	if status := r.agent.status(); rules.Absent != absent || status.EnvoyAbsent != absent || r.metric(t, "gridmesh_envoy_absent") != want {
		t.Errorf("%s: absent %v in the kernel, %v in the status, want %v", when, rules.Absent, status.EnvoyAbsent, absent)
	}
	r.wantPaths(t, when, []string{webFrontend}, []string{webFrontend})
}

// wantBalanced is about the health that load balancers hear, at /healthz and at the ports of Services.
func (r *rig) wantBalanced(t *testing.T, when string, want bool) {
	t.Helper()
	w := httptest.NewRecorder()
	r.agent.serveEligible(w, nil)
	if h := r.agent.forBalancers(time.Now()); h.Healthy != want || (w.Code == http.StatusOK) != want {
		t.Errorf("%s: load balancers hear %v and %d, want %v (%+v)", when, h.Healthy, w.Code, want, r.agent.status())
	}
}

// One that is absent, and one that hangs, is told to the kernel path at once; and that
// it serves again, when it has for a moment. A stream that ends has it asked at once.
func TestFailOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, envoy := openRig(t)
		expect := func(when string, absent bool) {
			t.Helper()
			r.wantAbsent(t, when, absent)
			r.wantHealthy(t, when, true)
		}
		expect("it serves", false)
		envoy.Store(itIsAbsent)
		r.xds.Disconnect()
		fill(r.agent.streamed)
		synctest.Wait()
		expect("it is gone", true)
		envoy.Store(itServes)
		r.xds.Connect("1.40.0")
		after(askServesEvery)
		expect("it is back", true)
		if back := time.Until(r.agent.status().EnvoyBack); back != servesFirst {
			t.Errorf("it is back, and serves in %s", back)
		}
		after(servesFirst)
		expect("it has been back for a moment", false)
		envoy.Store(itHangs)
		after(askServesEvery + servesWithin)
		expect("it hangs", true)
		envoy.Store(itServes)
		after(2*servesFirst + 2*askServesEvery)
		expect("it goes on", false)
		if n := r.metric(t, "gridmesh_envoy_absences_total"); n != 2 {
			t.Errorf("%v absences are counted, want 2", n)
		}

		r.xds.Disconnect()
		r.wantHealthy(t, "it serves, and hears of no change", false)
		r.wantBalanced(t, "it serves, and hears of no change", true)
		r.xds.Connect("1.40.0")
		r.capture.Fail("EnvoyAbsent(true)", errBroken)
		envoy.Store(itIsAbsent)
		after(askServesEvery)
		r.wantHealthy(t, "the kernel does not take it", false)
		r.wantBalanced(t, "the kernel does not take it", false)
	})
}

// With Envoy alone nobody serves what it does not hear of, and load balancers hear that, too.
func TestLoadBalancersHearOfEnvoyWhereItIsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		r.publish(webOnly())
		r.wantBalanced(t, "it is connected", true)
		r.xds.Disconnect()
		r.wantHealthy(t, "none is", false)
		r.wantBalanced(t, "none is", false)
	})
}

// One that falls again and again does not have the path changed each time: the kernel
// keeps what it has for longer and longer, up to a bound, and the log is not filled.
func TestEnvoyThatFlaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, envoy := openRig(t)
		moves, was := 0, false
		const rounds = 200
		for range rounds { // as of one that dies of want of memory, 15 s after its start
			for _, is := range []int32{itIsAbsent, itServes} {
				envoy.Store(is)
				for range 15 {
					after(askServesEvery)
					rules, _ := r.kernel.InForce()
					if rules.Absent != was {
						moves, was = moves+1, rules.Absent
					}
					if is == itIsAbsent && !rules.Absent {
						t.Fatal("an absent Envoy is given connections")
					}
				}
			}
		}
		if moves == 0 || moves > 10 {
			t.Errorf("%d moves in %d rounds", moves, rounds)
		}
		if n := r.log.Count("Envoy takes"); n > moves {
			t.Errorf("said %d times", n)
		}
		after(servesMost)
		r.wantAbsent(t, "it stays", false)
		after(servesCalm)
		envoy.Store(itIsAbsent)
		after(askServesEvery)
		r.wantAbsent(t, "it falls after a long time", true)
		envoy.Store(itServes)
		after(servesFirst + askServesEvery)
		r.wantAbsent(t, "it is back as after a first fall", false)
	})
}

// Who cannot ask knows nothing of Envoy: what was known goes on, and that nobody can
// ask is said.
func TestNobodyCanAskWhetherEnvoyServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, envoy := openRig(t)
		for _, absent := range []bool{false, true} {
			envoy.Store(nobodyCanAsk)
			after(time.Minute)
			r.wantAbsent(t, "nobody can ask", absent)
			if text := r.agent.status().EnvoyUnknown; !strings.Contains(text, unix.EMFILE.Error()) {
				t.Errorf("the status says %q", text)
			}
			envoy.Store(itIsAbsent)
			after(askServesEvery)
			r.wantAbsent(t, "it was asked", true)
			if text := r.agent.status().EnvoyUnknown; text != "" {
				t.Errorf("it was asked, and the status says %q", text)
			}
		}
		// Of what nobody saw it does not count as having served.
		envoy.Store(itServes)
		after(askServesEvery)
		envoy.Store(nobodyCanAsk)
		after(time.Minute)
		envoy.Store(itServes)
		after(askServesEvery)
		r.wantAbsent(t, "asked once again", true)
		if n := r.log.Count("cannot ask whether Envoy serves"); n != 3 {
			t.Errorf("said %d times", n)
		}
	})
}

// Where nobody could ask from the start, what a run before said stays.
func TestNobodyCouldEverAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, envoy := openRig(t)
		envoy.Store(itIsAbsent)
		after(askServesEvery)
		r.stop()
		r.again()
		r.withKernelPath(topology.DatapathAuto).Store(nobodyCanAsk)
		r.mustStart(t)
		r.publish(webOnly())
		after(time.Minute)
		if rules, _ := r.kernel.InForce(); !rules.Absent || r.agent.status().EnvoyUnknown == "" {
			t.Errorf("absent %v, %+v", rules.Absent, r.agent.status())
		}
	})
}

// An Envoy that starts with its agent has connections as soon as it serves, and one that
// falls later three seconds after it serves again.
func TestAnEnvoyThatStartsWithItsAgentIsNotWaitedFor(t *testing.T) {
	counts, now, start := fallsOfEnvoy(), absence{}, time.Unix(1000, 0)
	for _, step := range []struct {
		at     time.Duration
		err    error
		absent bool
	}{{0, errBroken, true}, {time.Second, errBroken, true}, {2 * time.Second, nil, false}, {20 * time.Second, errBroken, true}, {21 * time.Second, nil, true}, {23 * time.Second, nil, true}, {24 * time.Second, nil, false}} {
		if now = now.next(&counts, step.err, start.Add(step.at)); now.absent != step.absent {
			t.Errorf("after %s: absent %v, want %v", step.at, now.absent, step.absent)
		}
	}
}

// Who else listens on Envoy's ports is found when Envoy was asked, and not a minute later,
// and is none of it any more as soon as Envoy serves. With the kernel alone nobody needs Envoy.
func TestAStrangerOnEnvoysPortsIsFound(t *testing.T) {
	for datapath, want := range map[topology.Datapath]int{topology.DatapathAuto: 1, topology.DatapathKernel: 0} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			envoy := r.withKernelPath(datapath)
			r.mustStart(t)
			r.publish(webOnly())
			is := func(what int32, found ...capture.Finding) int {
				r.mu.Lock()
				r.found = found
				r.mu.Unlock()
				envoy.Store(what)
				after(askServesEvery)
				return len(r.agent.status().Findings)
			}
			if got := is(itIsAStranger, capture.Finding{Kind: capture.EnvoyPorts, Text: "user 65534"}); got != want || !r.agent.status().EnvoyAbsent {
				t.Errorf("%s: %d findings, want %d", datapath, got, want)
			}
			if got := is(itServes); got != 0 {
				t.Errorf("%s: he is gone, and %d findings", datapath, got)
			}
		})
	}
}
