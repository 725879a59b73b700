package node

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

// How Envoy answers whether it serves.
const (
	itServes int32 = iota
	itIsAbsent
	itHangs
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
		r.wantJournal(t, "the first view", "Retract", "kernel", "Update", "Extend")
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
		if _, held := r.xds.Holds("10.96.0.10:80"); !held {
			// A connection that comes just now asks for it.
			r.xds.Ask("10.96.0.10:80")
			if ends, _ := r.xds.Holds("10.96.0.10:80"); len(ends) != 1 {
				t.Errorf("Envoy would send it to %v", ends)
			}
		}
		after(repairEvery)
		r.wantPaths(t, "tried again", nil, both)

		o.Closed("web", "10.96.0.10", map[string]string{"a-2": "10.244.2.5"})
		r.journal.Take()
		r.publish(o)
		r.wantJournal(t, "back to Envoy", "Retract", "kernel", "Update", "Extend")
		r.wantPaths(t, "back to Envoy", []string{webFrontend}, both)
	})
}

// One that is absent, and one that hangs, is told to the kernel path; and that
// it serves again. A stream that ends has it asked at once.
func TestFailOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		envoy := r.withKernelPath(topology.DatapathAuto)
		r.mustStart(t)
		r.publish(webOnly())
		expect := func(when string, absent bool) {
			t.Helper()
			rules, _ := r.kernel.InForce()
			want := map[bool]float64{true: 1}[absent]
			if status := r.agent.status(); rules.Absent != absent || status.EnvoyAbsent != absent || r.metric(t, "gridmesh_envoy_absent") != want {
				t.Errorf("%s: absent %v in the kernel, %v in the status, want %v", when, rules.Absent, status.EnvoyAbsent, absent)
			}
			r.wantPaths(t, when, []string{webFrontend}, []string{webFrontend})
			r.wantHealthy(t, when, true)
		}
		expect("it serves", false)
		envoy.Store(itIsAbsent)
		r.xds.Disconnect()
		fill(r.agent.streamed)
		synctest.Wait()
		expect("it is gone", true)
		envoy.Store(itServes)
		after(askServesEvery)
		expect("it is back", false)
		envoy.Store(itHangs)
		after(askServesEvery + servesWithin)
		expect("it hangs", true)
		envoy.Store(itServes)
		after(askServesEvery)
		expect("it goes on", false)

		r.capture.Fail("EnvoyAbsent(true)", errBroken)
		envoy.Store(itIsAbsent)
		after(askServesEvery)
		r.wantHealthy(t, "the kernel does not take it", false)
	})
}

// Where that is left to the agent, the kernel serves what Envoy would have pass by
// NetworkPolicies, as they come and go, and after a restart without a cloud.
func TestPoliciesChooseTheKernel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{}
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
		r.wantPaths(t, "they are gone", web, web)
	})
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
		if !r.agent.status().Policies {
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
