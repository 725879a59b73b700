package node

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/quiet"
	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

// How Envoy answers whether it serves.
const (
	itServes int32 = iota
	itIsAbsent
	itHangs
	nobodyCanAsk
	itIsAStranger
)

// withKernelPath gives a node both paths. The value says what Envoy is.
func (r *rig) withKernelPath(d topology.Datapath) *atomic.Int32 {
	envoy := &atomic.Int32{}
	r.cfg.Datapath = d
	r.capture.WithKernelPath()
	r.serves = func(ctx context.Context) error {
		switch envoy.Load() {
		case itIsAbsent:
			return errBroken
		case itHangs:
			<-ctx.Done()
			return ctx.Err()
		case nobodyCanAsk:
			return fmt.Errorf("%w: %w", ErrNotKnown, unix.EMFILE)
		case itIsAStranger:
			return capture.ErrStranger
		}
		return nil
	}
	return envoy
}

// wantPaths compares what Envoy gets, and what the kernel serves besides.
func (r *rig) wantPaths(t *testing.T, when string, envoy, kernel []string) {
	t.Helper()
	r.wantServed(t, when, envoy...)
	rules, _ := r.kernel.InForce()
	var got []string
	for _, f := range rules.Kernel {
		got = append(got, f.String())
	}
	if !slices.Equal(got, kernel) {
		t.Errorf("%s: the kernel path has %v, want %v", when, got, kernel)
	}
}

// What moves to the kernel is there before Envoy loses it, and what the kernel
// does not take stays with Envoy.
func TestPathsOfAView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.withKernelPath(topology.DatapathAuto)
		r.mustStart(t)
		o := webOnly()
		o.Plain("other", "10.96.0.11", map[string]string{"a-2": "10.244.2.6"})
		r.journal.Take()
		r.publish(o)
		both := []string{webFrontend, otherFrontend}
		r.wantJournal(t, "the first view", "Retract", "kernel", "Update", "Await("+webCluster+")", "Extend", "Update")
		r.wantPaths(t, "the first view", []string{webFrontend}, both)
		if got := r.agent.status(); got.Datapath != "auto" || got.Paths == nil || got.Paths.Envoy != 1 || got.Paths.Kernel != 1 || got.EnvoyAbsent {
			t.Errorf("the status says %q %+v, absent %v", got.Datapath, got.Paths, got.EnvoyAbsent)
		}
		if n := r.metric(t, "gridmesh_frontends"); n != 1 {
			t.Errorf("frontends of the first path: %v", n)
		}

		o.Plain("web", "10.96.0.10", map[string]string{"a-2": "10.244.2.5"})
		r.capture.Fail("kernel", errBroken)
		r.publish(o)
		r.wantPaths(t, "the kernel does not take it", []string{webFrontend}, both)
		if r.agent.status().Error == "" {
			t.Error("the status does not say that the kernel does not take it")
		}
		if ends, held := r.xds.Holds(webCluster); !held || len(ends) != 1 {
			t.Errorf("Envoy holds it: %v, and would send it to %v", held, ends)
		}
		after(repairEvery)
		r.wantPaths(t, "tried again", nil, both)
		if _, held := r.xds.Holds(webCluster); held {
			t.Error("Envoy is handed none of it any more, and keeps it")
		}

		o.Closed("web", "10.96.0.10", map[string]string{"a-2": "10.244.2.5"})
		r.journal.Take()
		r.publish(o)
		r.wantJournal(t, "back to Envoy", "Retract", "kernel", "Update", "Await("+webCluster+")", "Extend")
		r.wantPaths(t, "back to Envoy", []string{webFrontend}, both)
	})
}

// Where that is left to the agent, the kernel serves what Envoy would have pass by
// NetworkPolicies, as they come and go, and after a restart without a cloud.
func TestPoliciesChooseTheKernel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{Pods: prefixes("10.244.1.0/24")}
		r.withKernelPath(topology.DatapathAuto)
		r.mustStart(t)
		r.publish(webOnly())
		web := []string{webFrontend}
		r.wantPaths(t, "there are none", web, web)
		r.api.Set(func(a *nodetest.API) { a.Policy = true })
		after(2 * policiesEvery)
		r.wantPaths(t, "they came", nil, web)
		if found := r.agent.status().Findings; len(found) > 0 {
			t.Errorf("none is bypassed, and it is said: %v", found)
		}
		for range 3 { // looks are two minutes apart: what the status says is as old as the last
			time.Sleep(policiesEvery / 2)
			if old := time.Since(r.agent.status().PoliciesSeen); old < 0 || old > 2*policiesEvery {
				t.Errorf("there are some as of %s ago", old)
			}
		}
		r.stop()

		r.again()
		r.withKernelPath(topology.DatapathAuto)
		r.api.Set(func(a *nodetest.API) { a.Away = errBroken })
		r.mustStart(t)
		after(2 * time.Second)
		r.wantPaths(t, "restarted without a cloud", nil, web)
		r.publish(webOnly())
		r.wantPaths(t, "the first whole view", nil, web)
		r.api.Set(func(a *nodetest.API) { a.Away, a.Policy = nil, false })
		after(2 * policiesEvery)
		r.wantPaths(t, "they are gone", nil, web)
		after(policiesFirst + policiesEvery)
		r.wantPaths(t, "they stay away", web, web)
	})
}

// The first NetworkPolicy is followed when it is made, and where the API server keeps no
// watch at the next look.
func TestTheFirstPolicyIsHeardOf(t *testing.T) {
	for what, tc := range map[string]struct {
		deaf   error
		within time.Duration
	}{"by a watch": {nil, time.Second}, "without a watch": {errBroken, 2 * policiesEvery}} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.api = &nodetest.API{Deaf: tc.deaf}
				r.withKernelPath(topology.DatapathAuto)
				r.mustStart(t)
				r.publish(webOnly())
				web := []string{webFrontend}
				after(10 * policiesEvery)
				r.wantPaths(t, "there are none", web, web)
				r.api.Set(func(a *nodetest.API) { a.Policy = true })
				after(tc.within)
				r.wantPaths(t, "the first came", nil, web)
				want := 0
				if tc.deaf != nil {
					want = 1
				}
				if n := r.log.Count("could not wait for NetworkPolicies"); n != want {
					t.Errorf("said %d times", n)
				}
			})
		})
	}
}

// askedForPolicies counts how often that was since the journal was taken last.
func (r *rig) askedForPolicies() (n int) {
	for _, what := range r.journal.Take() {
		if what == "ask policies" {
			n++
		}
	}
	return n
}

// An uplink that is cut ends the watch, and the first NetworkPolicy may come just then;
// a server that keeps no watch is asked less and less often.
func TestAWatchOfPoliciesIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{Journal: r.journal}
		r.withKernelPath(topology.DatapathAuto)
		r.mustStart(t)
		r.publish(webOnly())
		web := []string{webFrontend}
		after(2 * policiesSoon)
		r.api.Set(func(a *nodetest.API) { a.Deaf = errBroken })
		synctest.Wait()
		r.api.Set(func(a *nodetest.API) { a.Deaf, a.Policy = nil, true })
		after(2 * policiesSoon)
		r.wantPaths(t, "the first came when the watch was lost", nil, web)

		r.api.Set(func(a *nodetest.API) { a.Deaf, a.Policy = errBroken, false })
		after(policiesMost)
		r.journal.Take()
		after(time.Hour)
		asked := r.askedForPolicies()
		if most := int(time.Hour/policiesEvery) * 5 / 4; asked < 10 || asked > most {
			t.Errorf("without a watch asked %d times an hour, not %d at most", asked, most)
		}
	})
}

// Who makes and removes NetworkPolicies in a loop has no node ask more often.
func TestPoliciesInALoopAreNotAskedForMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{Journal: r.journal}
		r.withKernelPath(topology.DatapathAuto)
		r.mustStart(t)
		r.publish(webOnly())
		r.journal.Take()
		for range 600 {
			r.api.Set(func(a *nodetest.API) { a.Policy = !a.Policy })
			after(time.Second)
		}
		asked := r.askedForPolicies()
		if most := int(10*time.Minute/policiesEvery) + 4; asked < 2 || asked > most {
			t.Errorf("asked %d times in ten minutes, not %d at most", asked, most)
		}
	})
}

// Who makes and removes a NetworkPolicy again and again moves no node from path to
// path: the kernel has all, and the longer the more often they come.
func TestPoliciesThatComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{}
		r.withKernelPath(topology.DatapathAuto)
		r.mustStart(t)
		r.publish(webOnly())
		moves, was := 0, false
		for i := range 24 * 60 / 5 {
			r.api.Set(func(a *nodetest.API) { a.Policy = i%4 == 0 }) // for 5 minutes of each 20
			after(5 * time.Minute)
			status := r.agent.status()
			if rules, _ := r.kernel.InForce(); (len(rules.Serve) == 0) != was {
				moves, was = moves+1, !was
			}
			if i%4 == 0 && !was {
				t.Fatal("Envoy serves what policies are about")
			}
			if i%4 == 1 && was && status.PoliciesUntil.Before(time.Now()) {
				t.Error("the status does not say until when")
			}
		}
		if moves == 0 || moves > 10 {
			t.Errorf("%d moves in a day", moves)
		}
		if n := r.log.Count("NetworkPolicies"); n > quiet.Burst+moves {
			t.Errorf("said %d times", n)
		}
		r.api.Set(func(a *nodetest.API) { a.Policy = false })
		after(policiesMost + 2*policiesEvery)
		r.wantPaths(t, "they stay away", []string{webFrontend}, []string{webFrontend})
		if got := r.agent.status(); got.Policies || !got.PoliciesUntil.IsZero() {
			t.Errorf("the status: %v, %v", got.Policies, got.PoliciesUntil)
		}
	})
}

// Beside a policy engine, whose own kinds of policies nobody else knows, the kernel
// serves all where none is to be bypassed: then nothing is to be refused, or said.
func TestTheKernelBesideAPolicyEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{Pods: prefixes("10.244.1.0/24")}
		r.cfg.RefusePolicies = true
		r.found = []capture.Finding{{Kind: capture.PolicyEngine, Text: "rules of a policy engine"}}
		r.withKernelPath(topology.DatapathAuto)
		r.mustStart(t)
		r.publish(webOnly())
		web := []string{webFrontend}
		r.wantPaths(t, "beside it", nil, web)
		after(2 * policiesEvery)
		r.wantPaths(t, "the cluster has none", nil, web)
		if got := r.agent.status(); !got.Policies || len(got.Findings) > 0 || len(r.api.Events()) > 0 {
			t.Errorf("policies %v, findings %v, Events %v", got.Policies, got.Findings, r.api.Events())
		}
		r.mu.Lock()
		r.found = nil
		r.mu.Unlock()
		after(policiesFirst + 2*policiesEvery)
		r.wantPaths(t, "it is gone", web, web)
		r.stop()

		r.again()
		r.cfg.RefusePolicies = false
		r.found = []capture.Finding{{Kind: capture.PolicyEngine, Text: "rules of a policy engine"}}
		r.withKernelPath(topology.DatapathAuto)
		r.mustStart(t)
		r.publish(webOnly())
		r.wantPaths(t, "policies are but warned of", web, web)
		if got := r.agent.status(); len(got.Findings) != 1 {
			t.Errorf("findings: %v", got.Findings)
		}
	})
}

// A look at the start that failed has not seen that there is no engine: the kernel serves all
// until one has.
func TestAnEngineThatNobodyLookedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{}
		r.cfg.RefusePolicies = true
		r.looked = errBroken
		r.withKernelPath(topology.DatapathAuto)
		r.mustStart(t)
		r.publish(webOnly())
		web := []string{webFrontend}
		after(2 * policiesEvery)
		r.wantPaths(t, "the cluster has none, and nobody looked for an engine", nil, web)
		r.mu.Lock()
		r.looked = nil
		r.mu.Unlock()
		after(policiesFirst + 2*policiesEvery)
		r.wantPaths(t, "there is none", web, web)
	})
}

// A kernel path that takes no write keeps nothing from Envoy that is Envoy's.
func TestTheKernelPathFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.withKernelPath(topology.DatapathAuto)
		r.wrap = func(c Capture) Capture { return lastingly{c, r.capture} }
		r.mustStart(t)
		r.publish(webOnly())
		r.publish(webAndOther())
		r.wantServed(t, "the kernel path takes nothing", webFrontend, otherFrontend)
		r.wantHealthy(t, "the kernel path takes nothing", false)
		if ends, _ := r.xds.Holds("10.96.0.11:80"); len(ends) != 1 {
			t.Errorf("Envoy would send it to %v", ends)
		}
	})
}

// lastingly is a capture whose kernel path takes no write.
type lastingly struct {
	Capture
	twin *nodetest.Capture
}

func (l lastingly) Retract(v *topology.View, provisional bool) error {
	l.twin.Fail("kernel", errBroken)
	return l.Capture.Retract(v, provisional)
}

// What the kernel serves is served again after a reboot without a cloud.
func TestTheKernelPathAfterAReboot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.withKernelPath(topology.DatapathKernel)
		r.mustStart(t)
		r.publish(webOnly())
		r.stop()
		r.kernel.Flush()
		r.again()
		r.withKernelPath(topology.DatapathKernel)
		r.mustStart(t)
		after(2 * time.Second)
		r.wantPaths(t, "rebooted", nil, []string{webFrontend})
	})
}

// Until somebody has said that there are no NetworkPolicies nothing passes by them;
// what was said last is believed after a restart.
func TestNobodyHasSaidWhetherThereArePolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{Away: errBroken}
		r.withKernelPath(topology.DatapathAuto)
		r.mustStart(t)
		web := []string{webFrontend}
		r.publish(webOnly())
		r.wantPaths(t, "nobody has said", nil, web)
		if got := r.agent.status(); !got.Policies || !got.PoliciesUnknown {
			t.Error("the status does not say so")
		}
		r.api.Set(func(a *nodetest.API) { a.Away = nil })
		after(2 * policiesSoon)
		r.wantPaths(t, "there are none", web, web)
		r.stop()

		r.again()
		r.withKernelPath(topology.DatapathAuto)
		r.api.Set(func(a *nodetest.API) { a.Away = errBroken })
		r.mustStart(t)
		r.publish(webOnly())
		r.wantPaths(t, "restarted without a cloud", web, web)
	})
}

// Without the kernel path nothing of it is written, and nobody is told of it.
func TestOnePathAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{Policy: true}
		r.mustStart(t)
		r.publish(webOnly())
		r.wantPaths(t, "one path", []string{webFrontend}, nil)
		status := r.agent.status()
		if len(status.Findings) == 0 {
			t.Error("NetworkPolicies are bypassed, and nobody says so")
		}
		if status.Datapath != "" || status.Paths != nil || status.Policies || status.EnvoyAbsent {
			t.Errorf("the status speaks of paths: %+v", status)
		}
		after(2 * policiesEvery)
		r.stop()
		st, err := source.ReadState(r.cfg.statePath())
		if err != nil || st.Policies != nil {
			t.Errorf("kept of policies: %+v, %v", st, err)
		}
	})
}
