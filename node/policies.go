package node

import (
	"context"
	"fmt"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/topology"
)

// How often NetworkPolicies are looked for: while there are some, and where that failed.
const (
	policiesEvery = 2 * time.Minute
	policiesSoon  = 10 * time.Second
)

// policiesUnheard is the kind of the finding that nobody says whether there are
// NetworkPolicies; policiesPatience is how long nobody may.
const (
	policiesUnheard  capture.FindingKind = "policies-unheard"
	policiesPatience                     = time.Minute
)

// policiesFound says what becomes of them. It names none: they come and go.
const policiesFound = "the cluster has NetworkPolicies (kubectl get networkpolicies -A lists them): traffic through a ClusterIP bypasses what the node of the client enforces; where they are to be obeyed, start the agent without --datapath envoy (docs/limits.md)"

// policiesSilent names no error: it may be another each time.
const policiesSilent = "the API server answers, but does not say whether there are NetworkPolicies: of one that has come since it last did what goes through Envoy knows nothing, and where it never did the kernel serves all; let the agent list and watch networkpolicies (deploy/rbac.yaml); its log has the error"

// followPolicies looks for NetworkPolicies again and again, and while there are none
// waits for the first. They are anybody's to make, so they never end an agent that serves.
func (a *Agent) followPolicies(ctx context.Context) error {
	w := &policyWatch{Agent: a}
	for {
		next := policiesEvery
		name, version, err := a.parts.Cluster.NetworkPolicy(ctx)
		switch {
		case err != nil:
			if w.silent(ctx, err); a.cfg.Datapath != topology.DatapathNone {
				next = policiesSoon // which path serves may wait for it
			}
		case name == "":
			w.hears("")
			if next = w.await(ctx, version); next == 0 {
				continue
			}
		default:
			w.hears(name)
		}
		if !run.Pause(ctx, jitter(next)) {
			return nil
		}
	}
}

// policyWatch is what asking for NetworkPolicies has come to so far.
type policyWatch struct {
	*Agent
	unasked bool      // there was no answer, which was said
	since   time.Time // nobody says whether there are any, though the API server answers; zero: somebody does, or it does not
	deaf    bool      // the last watch failed, which was said
	lost    int       // watches, one after the other
}

func (w *policyWatch) hears(name string) {
	w.unasked, w.since = false, time.Time{}
	w.notePolicies(name)
}

// silent says so once, and finds it where only this is not answered: that nothing
// is, is said elsewhere. With Envoy alone nothing waits for the answer.
func (w *policyWatch) silent(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	if !w.unasked {
		w.unasked = true
		w.log.Warn(w.policiesUnasked(), obs.KeyErr, err)
	}
	if w.cfg.Datapath == topology.DatapathNone {
		return
	}
	var list []capture.Finding
	switch now := time.Now(); {
	case w.parts.Cluster.Reachable(ctx) != nil:
		w.since = time.Time{}
	case w.since.IsZero():
		w.since = now
	case now.Sub(w.since) >= policiesPatience:
		list = []capture.Finding{{Kind: policiesUnheard, Text: policiesSilent}}
	}
	w.show(w.found.replaceCluster(list))
}

// await waits for the first one, and returns when to look again; zero for at once.
func (w *policyWatch) await(ctx context.Context, version string) time.Duration {
	began := time.Now()
	name, err := w.parts.Cluster.AwaitNetworkPolicy(ctx, version, jitter(policiesEvery))
	if err != nil {
		if !w.deaf && ctx.Err() == nil {
			w.log.Warn("could not wait for NetworkPolicies; looking for them now and then", obs.KeyErr, err)
		}
		w.deaf = true
		var pause time.Duration
		pause, w.lost = afterLostWatch(w.lost, time.Since(began))
		return pause
	}
	w.deaf, w.lost = false, 0
	if name == "" {
		return 0
	}
	w.hears(name) // gone since or not: who makes and removes them has no node ask more often
	return policiesEvery
}

// afterLostWatch is how long nobody looks after a watch that failed: an uplink that was
// cut ends one, and the first NetworkPolicy may come just then. Where none is kept at
// all it is longer each time.
func afterLostWatch(lost int, held time.Duration) (pause time.Duration, now int) {
	if held >= policiesSoon {
		lost = 0
	}
	pause = min(policiesSoon<<lost, policiesEvery)
	if pause < policiesEvery {
		lost++
	}
	return pause, lost
}

func (a *Agent) policiesUnasked() string {
	if a.cfg.Datapath != topology.DatapathNone {
		return "could not ask for NetworkPolicies; until that is known the kernel serves all, or what the last answer allows"
	}
	return "could not ask for NetworkPolicies; if there are any, what the node of the client enforces is bypassed (docs/limits.md)"
}

// notePolicies notes whether there are any, by the name of one. With a kernel path none is bypassed
// that the operator did not choose Envoy for.
func (a *Agent) notePolicies(name string) {
	a.policies.Publish(word{name != "", time.Now()})
	fill(a.paths)
	var list []capture.Finding
	if name != "" && a.cfg.Datapath == topology.DatapathNone {
		list = []capture.Finding{{Kind: capture.PolicyEngine, Text: policiesFound}}
	}
	a.show(a.found.replaceCluster(list))
}

// refusePolicies keeps an agent from starting on a node that was not served
// before, where the operator wants that. An API server that does not answer
// keeps no node from starting.
func (a *Agent) refusePolicies(ctx context.Context) error {
	if a.parts.Cluster == nil || !a.cfg.RefusePolicies || a.parts.Capture.Found() || a.cfg.Datapath != topology.DatapathNone {
		return nil
	}
	name, _, err := a.parts.Cluster.NetworkPolicy(ctx)
	if err != nil {
		a.log.Warn("could not ask for NetworkPolicies before the start; starting", obs.KeyErr, err)
	}
	if err == nil && name != "" {
		return a.unfit(ctx, fmt.Errorf("%s; one is %s; leave --network-policies=refuse out to accept that", policiesFound, name))
	}
	return nil
}
