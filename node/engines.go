package node

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/node/report"
)

// tornLooks are how many looks in a row have to show no policy engine, where others write
// all the time: each has read all there was to its end, if not as of one moment, and an
// engine has more than what one of them may have missed.
const tornLooks = 2

func isEngine(f capture.Finding) bool { return f.Kind == capture.PolicyEngine }

// noteEngine tells the loop whether a look at the node showed a policy engine. Where it
// showed none, and ended with an error, nobody has seen that there is none.
func (a *Agent) noteEngine(list []capture.Finding, err error) {
	found := slices.ContainsFunc(list, isEngine)
	if a.torn++; found || err == nil || !onlyTorn(err) {
		a.torn = 0
	}
	if found || err == nil || a.torn >= tornLooks {
		a.engines.Publish(word{found, time.Now()})
		fill(a.paths)
	}
}

// onlyTorn reports whether all that went wrong is that others write all the time: what is
// joined to that may be a list that was not read.
func onlyTorn(err error) bool {
	var several interface{ Unwrap() []error }
	if !errors.As(err, &several) {
		return errors.Is(err, dump.ErrTorn)
	}
	return !slices.ContainsFunc(several.Unwrap(), func(one error) bool { return !onlyTorn(one) })
}

// engineUnseen is the note where no look has shown yet that there is no engine.
const engineUnseen = "no look at this node has shown yet that it has no policy engine (the agent's log has why), and --network-policies=refuse is given: the kernel serves all until one has"

// engineBlind is the note where looks have failed since one showed that there is none.
const engineBlind = "no look at this node has come to its end for %s (the agent's log has why), a policy engine may have come meanwhile, and --network-policies=refuse is given: the kernel serves all until one shows that it has none"

// engineMissed is the note where looks have failed since, and Envoy serves.
const engineMissed = "no look at this node has come to its end for %s (the agent's log has why), and --network-policies=refuse is given: Envoy serves as before, and what it serves passes by a policy engine that has come meanwhile"

// tellEngine adds one of those notes where it is so: that the kernel serves all is then not for
// the API server.
func (a *Agent) tellEngine(r *report.Report, now time.Time) {
	objects, _ := a.policies.Get()
	engine, looked := a.engines.Get()
	if !a.cfg.RefusePolicies || objects.so || engine.so {
		return
	}
	switch blind := now.Sub(engine.at); {
	case !looked && r.PoliciesUnknown:
		r.Notes = append(slices.Clip(r.Notes), engineUnseen)
	case looked && blind > blindFor && r.Policies:
		r.Notes = append(slices.Clip(r.Notes), fmt.Sprintf(engineBlind, blind.Round(time.Second)))
	case looked && blind > blindFor:
		r.Notes = append(slices.Clip(r.Notes), fmt.Sprintf(engineMissed, blind.Round(time.Second)))
	}
}
