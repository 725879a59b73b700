package node

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/topology"
)

var (
	anEngine = []capture.Finding{{Kind: capture.PolicyEngine, Text: "rules of a policy engine"}}
	errTorn  = fmt.Errorf("read chains: %w", fmt.Errorf("%w, 5 times", dump.ErrTorn))
)

// unseen is of the note that no look has shown that there is no engine.
const unseen = "has no policy engine"

// sees has the looks at the node from now on end like that.
func (r *rig) sees(found []capture.Finding, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found, r.looked = found, err
}

// unserved is a node of both paths whose agent, which only warned of policies, has ended
// and said last that there are none; the next one is to refuse.
func (r *rig) unserved(t *testing.T, beside []capture.Finding) {
	t.Helper()
	r.api = &nodetest.API{}
	r.sees(beside, nil)
	r.withKernelPath(topology.DatapathAuto)
	r.mustStart(t)
	r.publish(webOnly())
	r.wantPaths(t, "policies are but warned of", []string{webFrontend}, []string{webFrontend})
	r.stop()
	if st := r.saved(t); st.Policies == nil || *st.Policies {
		t.Fatalf("kept of policies: %v", st.Policies)
	}
	r.again()
	r.withKernelPath(topology.DatapathAuto)
	r.cfg.RefusePolicies = true
}

// That there are no policies is no word about an engine of the node: where the agent before
// only warned of them, or the engine came while none ran, it is believed once one has looked.
func TestWhatWasKnownOfPoliciesWaitsForALook(t *testing.T) {
	web := []string{webFrontend}
	for name, late := range map[string]bool{"at the start": false, "the state comes late": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.unserved(t, anEngine)
				r.sees(nil, errBroken)
				give := func() {}
				if late {
					giveState, giveNotes := r.hanging()
					giveNotes()
					give = giveState
				}
				r.mustStart(t)
				give()
				r.publish(webOnly())
				r.wantPaths(t, "nobody could look", nil, web)
				after(3 * policiesEvery)
				r.wantPaths(t, "nobody can look", nil, web)
				r.sees(anEngine, nil)
				after(2 * inspectEvery)
				r.wantPaths(t, "it is there", nil, web)
				if n := r.log.Count("nothing is left to the kernel"); n > 0 {
					t.Error("Envoy served for a moment")
				}
				r.sees(nil, nil)
				after(policiesFirst + 2*policiesEvery)
				r.wantPaths(t, "it is gone", web, web)
			})
		})
	}
}

// Where no API server answers, what was known counts as soon as a look has shown no engine.
func TestWhatWasKnownOfPoliciesAfterALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.unserved(t, nil)
		r.kernel.Flush()
		r.sees(nil, errBroken)
		r.api.Set(func(a *nodetest.API) { a.Away = errBroken })
		r.mustStart(t)
		web := []string{webFrontend}
		after(2 * time.Second)
		r.wantPaths(t, "nobody could look", nil, web)
		r.sees(nil, nil)
		after(2 * inspectEvery)
		r.wantPaths(t, "there is no engine", web, web)
	})
}

// Where others write rules all the time no list is of one moment, and yet it was read: two
// in a row that show no engine are a look. One that is beside another error is none.
func TestALookThatIsTornIsOne(t *testing.T) {
	web := []string{webFrontend}
	for name, tc := range map[string]struct {
		looks error
		ends  bool
	}{
		"torn":                      {errTorn, true},
		"torn, of several":          {errors.Join(errTorn, fmt.Errorf("links: %w", dump.ErrTorn)), true},
		"torn, and another not had": {errors.Join(errTorn, errBroken), false},
		"not had":                   {errBroken, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.api = &nodetest.API{}
				r.cfg.PodCIDRs = prefixes("10.244.1.0/24") // or these would have the node looked at again
				r.cfg.RefusePolicies = true
				r.sees(nil, tc.looks)
				r.withKernelPath(topology.DatapathAuto)
				r.mustStart(t)
				if _, looked := r.agent.engines.Get(); looked {
					t.Error("one is enough")
				}
				r.publish(webOnly())
				after(3 * inspectEvery)
				want := web
				if !tc.ends {
					want = nil
				}
				r.wantPaths(t, "after more", want, web)
				got := r.agent.status()
				text := got.PoliciesText(time.Now())
				if got.PoliciesUnknown == tc.ends || strings.Contains(strings.Join(got.Notes, "\n"), unseen) == tc.ends || (text == "") != tc.ends || strings.Contains(text, "cluster") {
					t.Errorf("unknown %v, %q, notes %q", got.PoliciesUnknown, text, got.Notes)
				}
				if (len(got.Findings) == 0) != tc.ends {
					t.Errorf("findings %v", got.Findings)
				}
			})
		})
	}
}

// One torn look between whole ones, or beside failed ones, shows nothing.
func TestTornLooksThatAreNotInARow(t *testing.T) {
	r := newRig(t)
	r.cfg.RefusePolicies = true
	r.withKernelPath(topology.DatapathAuto)
	var err error
	r.agent, err = New(r.cfg, r.parts())
	must(t, err)
	for i, step := range []struct {
		found  []capture.Finding
		err    error
		looked bool
		so     bool
	}{
		{nil, errTorn, false, false},
		{nil, errBroken, false, false},
		{nil, errTorn, false, false},
		{anEngine, errTorn, true, true},
		{nil, errTorn, true, true},
		{anEngine, errTorn, true, true},
		{nil, errTorn, true, true},
		{nil, errTorn, true, false},
	} {
		r.sees(step.found, step.err)
		_, _ = r.agent.inspectNode()
		if got, looked := r.agent.engines.Get(); looked != step.looked || got.so != step.so {
			t.Errorf("look %d: looked %v, an engine %v; want %v, %v", i, looked, got.so, step.looked, step.so)
		}
	}
}

// Where a look was had, and the API server alone has not said that there are none, the status
// says nothing of looks.
func TestTheStatusSaysWhoHasNotSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{Away: errBroken}
		r.cfg.RefusePolicies = true
		r.withKernelPath(topology.DatapathAuto)
		r.mustStart(t)
		r.publish(webOnly())
		if got := r.agent.status(); !got.PoliciesUnknown || strings.Contains(strings.Join(got.Notes, "\n"), unseen) {
			t.Errorf("unknown %v, notes %q", got.PoliciesUnknown, got.Notes)
		}
	})
}

// A look was had at the start, the API server could not be asked until looks had failed for
// long, and it has none: the status says that looks are what is waited for.
func TestTheStatusSaysThatLooksFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{Away: errBroken}
		r.cfg.RefusePolicies = true
		r.withKernelPath(topology.DatapathAuto)
		r.mustStart(t)
		r.publish(webOnly())
		r.sees(nil, errBroken)
		after(blindFor + inspectEvery)
		r.api.Set(func(a *nodetest.API) { a.Away = nil })
		after(3 * policiesEvery)
		web := []string{webFrontend}
		r.wantPaths(t, "looks fail", nil, web)
		if notes := strings.Join(r.agent.status().Notes, "\n"); !strings.Contains(notes, "no look at this node has come to its end for ") {
			t.Errorf("notes %q", notes)
		}
		r.sees(nil, nil)
		after(3 * inspectEvery)
		r.wantPaths(t, "a look shows none", web, web)
		if notes := strings.Join(r.agent.status().Notes, "\n"); strings.Contains(notes, "policy engine") {
			t.Errorf("notes %q", notes)
		}
	})
}

// Manifests have no policies, and an engine of the node may have some of its own: with
// --network-policies=refuse looks alone say what serves.
func TestAnEngineBesideManifests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.cfg.RefusePolicies = true
		r.sees(nil, errBroken)
		r.withKernelPath(topology.DatapathAuto)
		r.mustStart(t)
		r.publish(webOnly())
		web := []string{webFrontend}
		r.wantPaths(t, "nobody could look", nil, web)
		r.sees(anEngine, nil)
		after(2 * inspectEvery)
		r.wantPaths(t, "it is there", nil, web)
		r.sees(nil, nil)
		after(policiesFirst + 3*inspectEvery)
		r.wantPaths(t, "it is gone", web, web)
	})
}

// An engine that one look did not see, as while it restarts, is not gone for that where all
// looks after it fail, whatever the API server goes on to say of NetworkPolicies.
func TestAnEngineAndThenNoLookAtAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{}
		r.cfg.RefusePolicies = true
		r.sees(anEngine, nil)
		r.withKernelPath(topology.DatapathAuto)
		r.mustStart(t)
		r.publish(webOnly())
		web := []string{webFrontend}
		r.wantPaths(t, "an engine", nil, web)
		r.sees(nil, nil)
		after(inspectEvery + inspectEvery/4)
		if got := r.agent.status(); got.PoliciesUntil.IsZero() {
			t.Error("a look showed none: until when it counts is not said")
		}
		r.sees(nil, errBroken)
		after(policiesFirst + 3*policiesEvery)
		r.wantPaths(t, "nobody has looked since", nil, web)
		if got := r.agent.status(); !got.PoliciesUntil.IsZero() || !strings.Contains(strings.Join(got.Notes, "\n"), "no look at this node has come to its end for ") {
			t.Errorf("until %s, notes %q", got.PoliciesUntil, got.Notes)
		}
		r.sees(nil, nil)
		after(policiesFirst + 3*policiesEvery)
		r.wantPaths(t, "looks show none", web, web)
	})
}

// The API server says once that the last policy is gone, and nothing more: that it is over counts from then on
// only while it says so, however often looks show that there is no engine.
func TestTheAPIServerSaysNoneOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{Policy: true}
		r.cfg.RefusePolicies = true
		r.withKernelPath(topology.DatapathAuto)
		r.mustStart(t)
		r.publish(webOnly())
		web := []string{webFrontend}
		after(policiesEvery)
		r.wantPaths(t, "a policy", nil, web)
		r.api.Set(func(a *nodetest.API) { a.Policy = false })
		after(policiesEvery + policiesEvery/4)
		if got := r.agent.status(); got.PoliciesUntil.IsZero() {
			t.Error("there are none: until when they count is not said")
		}
		r.api.Set(func(a *nodetest.API) { a.Away, a.Deaf = errBroken, errBroken })
		after(2 * policiesFirst)
		r.wantPaths(t, "nobody has said so since", nil, web)
		r.api.Set(func(a *nodetest.API) { a.Away, a.Deaf = nil, nil })
		after(policiesFirst + 3*policiesEvery)
		r.wantPaths(t, "it says so again", web, web)
	})
}

// Envoy serves where looks fail that showed no engine before, and the status says what that means.
func TestTheStatusSaysWhatLooksMiss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{}
		r.cfg.RefusePolicies = true
		r.withKernelPath(topology.DatapathAuto)
		r.mustStart(t)
		r.publish(webOnly())
		after(2 * policiesEvery)
		web := []string{webFrontend}
		r.wantPaths(t, "there is none", web, web)
		r.sees(nil, errBroken)
		after(blindFor + 2*inspectEvery)
		r.wantPaths(t, "looks fail", web, web)
		if notes := strings.Join(r.agent.status().Notes, "\n"); !strings.Contains(notes, "Envoy serves as before") {
			t.Errorf("notes %q", notes)
		}
		r.sees(nil, nil)
		after(2 * inspectEvery)
		if notes := strings.Join(r.agent.status().Notes, "\n"); strings.Contains(notes, "policy engine") {
			t.Errorf("notes %q", notes)
		}
	})
}
