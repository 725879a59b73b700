package node

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/topology"
)

// How old the word is that there are none, in an outage, after it, and of an agent that started
// in one.
func TestTheAgeOfNoPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{}
		r.withKernelPath(topology.DatapathAuto)
		r.mustStart(t)
		r.publish(webOnly())
		after(10 * policiesEvery)
		age := func() time.Duration { return time.Since(r.agent.status().PoliciesNone) }
		if old := age(); old < 0 || old > 2*policiesEvery {
			t.Errorf("there are none as of %s ago", old)
		}
		r.api.Set(func(a *nodetest.API) { a.Away = errBroken })
		after(10 * policiesEvery)
		if old := age(); old < 8*policiesEvery || old > 12*policiesEvery { // the last look was up to two before it
			t.Errorf("in an outage there are none as of %s ago", old)
		}
		r.stop()
		r.again()
		r.withKernelPath(topology.DatapathAuto)
		r.mustStart(t)
		after(2 * time.Second)
		if got := r.agent.status(); got.Policies || !got.PoliciesUnasked || !got.PoliciesNone.IsZero() {
			t.Errorf("an agent that started without a cloud: some %v, unasked %v, none as of %s", got.Policies, got.PoliciesUnasked, got.PoliciesNone)
		}
		r.api.Set(func(a *nodetest.API) { a.Away = nil })
		after(2 * policiesSoon)
		if got := r.agent.status(); got.PoliciesUnasked || age() > 2*policiesSoon {
			t.Errorf("healed: unasked %v, none as of %s ago", got.PoliciesUnasked, age())
		}
	})
}

// The right to list NetworkPolicies alone is taken away: what serves stays, and who asks
// whether all is well hears of it; that nobody answers at all is another's to say.
func TestPoliciesThatNobodyTellsOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.api = &nodetest.API{}
		r.withKernelPath(topology.DatapathAuto)
		r.mustStart(t)
		r.publish(webOnly())
		found := func(when string, want bool) {
			t.Helper()
			status := r.agent.status()
			said := func(text string) bool {
				return strings.Contains(text, "does not say whether there are NetworkPolicies")
			}
			if got := slices.ContainsFunc(status.Degraded(time.Now()), said); got != want {
				t.Errorf("%s: degraded by it %v", when, got)
			}
		}
		after(policiesEvery)
		found("none", false)
		r.api.Set(func(a *nodetest.API) { a.Away, a.Deaf = errBroken, errBroken })
		after(2 * policiesEvery)
		found("the API server is away", false)
		r.api.Set(func(a *nodetest.API) { a.Away, a.Secret = nil, errBroken })
		after(policiesPatience + 2*policiesSoon)
		found("they are kept from it", true)
		r.wantPaths(t, "they are kept from it", []string{webFrontend}, []string{webFrontend})
		r.api.Set(func(a *nodetest.API) { a.Away = errBroken })
		after(2 * policiesSoon)
		found("the API server is away, too", false)
		r.api.Set(func(a *nodetest.API) { a.Away = nil })
		after(policiesPatience / 2)
		found("it has just come back", false)
		after(policiesPatience)
		found("it is back, and they are kept from it", true)
		r.api.Set(func(a *nodetest.API) { a.Secret = nil })
		after(2 * policiesSoon)
		found("allowed again", false)
	})
}
