package model

import (
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// Readiness is what somebody knows of whether something is ready, over time.
type Readiness struct{ changes []readyFrom }

type readyFrom struct {
	at    time.Time
	ready bool
}

// Set notes what is known from now on. Before the first time nothing is said.
func (r *Readiness) Set(at time.Time, ready bool) {
	if n := len(r.changes); n == 0 || r.changes[n-1].ready != ready {
		r.changes = append(r.changes, readyFrom{at, ready})
	}
}

// unready calls f with the times from which on it was not ready at some time
// between from and to, until f is true, and reports whether it was.
func (r *Readiness) unready(from, to time.Time, f func(began time.Time) bool) bool {
	for i, c := range r.changes {
		over := i+1 < len(r.changes) && r.changes[i+1].at.Before(from)
		if !c.ready && !over && !c.at.After(to) && f(c.at) {
			return true
		}
	}
	return false
}

// Unserved is why a node may be without any endpoint of a Service: its pods
// were not ready by their own word when their uplink went, and that they are
// again is not heard before it is back.
type Unserved struct {
	Agent *Readiness   // what the node's agent knew
	Cloud *Readiness   // what the API server's slices said
	Pods  []*Readiness // what each pod's kubelet has said of it
}

// May reports whether the node may have been without one at some time between
// from and to, given that what was known at since may still have been in force:
// its agent knew of none, neither did the cloud, and each kubelet had said so
// itself within slack of when that began for the agent.
//
// That others say so is no reason: a node that is silent makes its pods not
// ready for the cloud, and must darken nothing.
func (u Unserved) May(since, from, to time.Time, slack time.Duration) bool {
	always := func(time.Time) bool { return true }
	return len(u.Pods) > 0 && u.Cloud.unready(since, to, always) && u.Agent.unready(from, to, func(began time.Time) bool {
		return !slices.ContainsFunc(u.Pods, func(p *Readiness) bool { return !p.unready(began.Add(-slack), began.Add(slack), always) })
	})
}

// AnyReady reports whether slices have a ready endpoint on any of the nodes.
func AnyReady(list []*topology.Slice, nodes []string) bool {
	return slices.ContainsFunc(list, func(s *topology.Slice) bool {
		return slices.ContainsFunc(s.Endpoints, func(e topology.Endpoint) bool { return e.Ready && slices.Contains(nodes, e.Node) })
	})
}

// Slices are the newest ones of a Service.
func (h *History) Slices(service topology.ObjectKey) (list []*topology.Slice) {
	for id, versions := range h.objects {
		last := versions[len(versions)-1].slice
		if id.Kind == Slice && id.Namespace == service.Namespace && last != nil && last.Service == service.Name {
			list = append(list, last)
		}
	}
	return list
}
