package node

import (
	"time"

	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/topology"
)

// NetworkPolicies are anybody's to make, and to remove. The kernel serves all as soon
// as there are any; Envoy serves again when there have been none for some time, so
// that no tenant drives every node of the cluster from path to path.
const (
	policiesFirst = 10 * time.Minute
	policiesMost  = 2 * time.Hour
	policiesCalm  = 12 * time.Hour
)

// word is what somebody said at that time.
type word struct {
	so bool
	at time.Time
}

// takePaths takes what decides which path serves.
func (l *loop) takePaths() {
	l.takeAbsence()
	l.takeBeside()
	l.takePolicies()
	l.takeDead()
}

// takePolicies has the kernel serve what Envoy would have pass by NetworkPolicies,
// where that is left to the agent, while there are any.
func (l *loop) takePolicies() {
	if l.cfg.Datapath == topology.DatapathNone {
		return
	}
	objects, asked := l.policies.Get()
	engine, looked := l.engines.Get()
	asked, looked = asked || l.manifestsRefuse(), looked || !l.cfg.RefusePolicies
	if !objects.so && !engine.so {
		l.restorePolicies(looked)
		if !asked || !looked {
			return // nobody has said that there are none, or seen that nobody enforces others
		}
	}
	newest := later(objects.at, engine.at)
	so := objects.so || engine.so
	if l.cfg.RefusePolicies && !so && newest.Sub(engine.at) > blindFor {
		counting := !l.damped.until().IsZero()
		l.damped.unknown() // of engines looks alone tell, and these fail
		if counting {      // the status must not count what does not end
			l.publish()
		}
		return
	}
	said := word{so, newest}
	if !so && !l.damped.until().IsZero() {
		said.at = l.allSaid(objects, engine)
	}
	l.knowPolicies(said)
}

// allSaid is until when all who are asked have said that there are none: who is silent since
// then has not said that it is over for any longer.
func (l *loop) allSaid(objects, engine word) time.Time {
	switch {
	case l.parts.Cluster == nil:
		return engine.at
	case !l.cfg.RefusePolicies:
		return objects.at
	}
	if objects.at.Before(engine.at) {
		return objects.at
	}
	return engine.at
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// blindFor is how old the last look at the node is when it says nothing more: two may be torn,
// and come late.
const blindFor = 3 * inspectEvery

// knowPolicies takes whether there are NetworkPolicies.
func (l *loop) knowPolicies(said word) {
	was, until, told := l.mayBePoliced(), l.damped.until(), l.policed != nil
	counts := l.damped.take(said.so, said.at)
	if !told || *l.policed != counts {
		l.policed = &counts
		if l.snap != nil && l.live {
			l.saver.Mark()
		}
	}
	switch {
	case was != counts:
		l.changePolicies(counts)
	case !told || !l.damped.until().Equal(until):
		l.publish()
	}
}

func (l *loop) changePolicies(counts bool) {
	if counts {
		l.said.policed.Say(l.log.Info, "the cluster has NetworkPolicies: the kernel serves all, for what goes through Envoy passes by them")
	} else {
		l.said.policed.Say(l.log.Info, "the cluster has no NetworkPolicies: nothing is left to the kernel for them")
	}
	l.lookAnew()
	if l.snap != nil {
		l.apply(l.snap)
	}
}

// restorePolicies takes what was known of NetworkPolicies before a restart. That there were
// none says nothing of an engine, which may have come since, or did not count then.
func (l *loop) restorePolicies(looked bool) {
	if l.restored == nil || l.restored.Policies == nil || l.policed != nil {
		return
	}
	if was := *l.restored.Policies; was || looked {
		l.knowPolicies(word{was, time.Now()})
	}
}

// manifestsRefuse reports whether looks at the node alone say which path serves: nobody is
// asked for NetworkPolicies, and an engine may have others.
func (l *loop) manifestsRefuse() bool { return l.parts.Cluster == nil && l.cfg.RefusePolicies }

// mayBePoliced reports whether there are NetworkPolicies, or nobody has said yet that
// there are none: what passes by them is not to be the first that a node does.
func (l *loop) mayBePoliced() bool {
	if l.policed == nil {
		return (l.parts.Cluster != nil || l.manifestsRefuse()) && l.cfg.Datapath != topology.DatapathNone
	}
	return *l.policed
}

// lookAnew begins a view by what the node chose, and what is known of policies.
func (l *loop) lookAnew() {
	opts := l.cfg.Topology
	opts.Datapath, opts.Policies, opts.Owners = l.cfg.Datapath, l.mayBePoliced(), true
	l.viewer = topology.NewViewer(l.cfg.Node, opts)
}

// tellPaths says which path serves what, and why.
func (l *loop) tellPaths(r *report.Report, paths report.Paths) {
	l.metrics.paths(paths)
	r.Datapath, r.Paths = l.cfg.Datapath.String(), &paths
	r.Policies, r.PoliciesUntil = l.mayBePoliced(), l.damped.until()
	r.PoliciesUnknown = r.Policies && l.policed == nil
	r.TakeOver = l.cfg.TakeOver
	r.BesideKubeProxy, r.KubeProxyUntil, r.KubeProxyAlive = l.proxy.so, l.proxy.until, l.proxy.alive
	r.EnvoyAbsent, r.EnvoyBack, r.EnvoyUnknown = l.envoys.absent, l.envoys.back, l.envoys.unasked
}
