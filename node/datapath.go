package node

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/topology"
)

const (
	// askServesEvery is how often Envoy is asked whether it serves; the end of its
	// stream is a reason to ask at once.
	askServesEvery = time.Second
	// servesWithin is how long that may take.
	servesWithin = 2 * time.Second
)

// followAbsence keeps asking Envoy whether it serves. It is not its stream that
// counts: one that lost that goes on with what it holds, and one that hangs has it.
func (a *Agent) followAbsence(ctx context.Context) error {
	for {
		within, cancel := context.WithTimeout(ctx, servesWithin)
		why := a.parts.EnvoyServes(within)
		cancel()
		if last, known := a.absence.Get(); ctx.Err() == nil && (!known || (last != nil) != (why != nil)) {
			a.absence.Publish(why)
			fill(a.paths)
		}
		select {
		case <-time.After(askServesEvery):
		case <-a.streamed:
		case <-ctx.Done():
			return nil
		}
	}
}

// tellOfStreams has Envoy asked when a stream of it begins and when it ends.
func (a *Agent) tellOfStreams(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	fill(a.streamed)
	defer fill(a.streamed)
	return handle(srv, s)
}

// takePaths takes what decides which path serves.
func (l *loop) takePaths() {
	l.takeAbsence()
	l.takePolicies()
}

// takeAbsence has the kernel path serve for Envoy, or Envoy again.
func (l *loop) takeAbsence() {
	why, known := l.absence.Get()
	absent := why != nil
	if !known || l.absent != nil && *l.absent == absent {
		return
	}
	first := l.absent == nil
	l.absent = &absent
	l.metrics.absent.Set(map[bool]float64{true: 1}[absent])
	switch {
	case absent:
		l.said.absent.Say(l.log.Warn, "Envoy takes no connections; the kernel serves the first tier of what it served", obs.KeyErr, why)
	case !first:
		l.said.absent.Say(l.log.Info, "Envoy takes connections again")
	}
	if err := l.capture.EnvoyAbsent(absent); err != nil {
		l.said.write.Say(l.log.Error, "could not write which path connections take; trying again", obs.KeyErr, err)
		l.metrics.syncFailures.Inc()
		l.broken = err
		l.pace.hurry()
	}
	l.publish()
}

// takePolicies has the kernel serve what Envoy would have pass by NetworkPolicies,
// where that is left to the agent, while there are any.
func (l *loop) takePolicies() {
	if found, known := l.policies.Get(); known && l.cfg.Datapath != topology.DatapathNone {
		l.knowPolicies(found)
	}
}

func (l *loop) knowPolicies(found bool) {
	was := l.mayBePoliced()
	if l.policed != nil && *l.policed == found {
		return
	}
	l.policed = &found
	if l.snap != nil && l.live {
		l.saver.Mark()
	}
	if was == found {
		return
	}
	if found {
		l.log.Info("the cluster has NetworkPolicies: the kernel serves all, for what goes through Envoy passes by them")
	} else {
		l.log.Info("the cluster has no NetworkPolicies: Envoy serves, too")
	}
	l.lookAnew()
	if l.snap != nil {
		l.apply(l.snap)
	}
}

// mayBePoliced reports whether there are NetworkPolicies, or nobody has said yet that
// there are none: what passes by them is not to be the first that a node does.
func (l *loop) mayBePoliced() bool {
	if l.policed == nil {
		return l.parts.Cluster != nil && l.cfg.Datapath != topology.DatapathNone
	}
	return *l.policed
}

// lookAnew begins a view by what the node chose, and what is known of policies.
func (l *loop) lookAnew() {
	opts := l.cfg.Topology
	opts.Datapath, opts.Policies = l.cfg.Datapath, l.mayBePoliced()
	l.viewer = topology.NewViewer(l.cfg.Node, opts)
}
