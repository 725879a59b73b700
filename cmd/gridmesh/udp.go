package main

import (
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/topology/refusal"
	"github.com/gridmesh/gridmesh/xds/render"
)

// refusedUDP is why a UDP frontend has no listener.
type refusedUDP struct {
	refusal.Cause
	notice bool
}

const toldProblem = "problem"

// told is as what it is told.
func (r *refusedUDP) told() string {
	if r.notice {
		return "notice"
	}
	return toldProblem
}

// udpRefused are the UDP frontends that have endpoints and that Envoy gets no
// listener for, and why: what gridmesh xds says of them.
func (w *world) udpRefused() map[topology.Frontend]*refusedUDP {
	if w.refused == nil {
		w.refused = w.refuseUDP()
	}
	return w.refused
}

func (w *world) refuseUDP() map[topology.Frontend]*refusedUDP {
	refused, cat := map[topology.Frontend]*refusedUDP{}, w.catalog(0)
	for _, s := range w.view.Services.All() {
		for i := range s.Frontends {
			f := &s.Frontends[i]
			if f.Protocol != topology.UDP || f.Path != topology.PathEnvoy || len(f.Tiers) == 0 || cat.Preloaded(render.ClusterName(f.Frontend)) {
				continue
			}
			r := render.RefusedUDP(s, f)
			if r == nil {
				r = &render.Refusal{Why: "the node has no UDP listener left for it", Cure: "give Services fewer UDP ports, or run the agent with --datapath auto"}
			}
			refused[f.Frontend] = &refusedUDP{refusal.Cause{Service: s.Key.String(), Why: f.String() + " is refused: " + r.Why, Cure: r.Cure}, r.Notice}
		}
	}
	return refused
}

// cause is why an address of Services answers nobody here.
func (w *world) cause(to topology.Frontend) *refusal.Cause {
	if r := w.udpRefused()[to]; r != nil {
		return &r.Cause
	}
	return refusal.Of(w.snap, w.view, w.opts, to)
}

// udpTold says what of UDP is refused: what is a notice, or what is a problem.
func (w *world) udpTold(notices bool) (list []topology.Problem) {
	refused := w.udpRefused()
	for _, s := range w.view.Sorted() {
		for i := range s.Frontends {
			if r := refused[s.Frontends[i].Frontend]; r != nil && r.notice == notices {
				list = append(list, topology.Problem{Object: "service " + r.Service, Field: "spec.ports", Text: r.Why + "; " + r.Cure})
			}
		}
	}
	return list
}

// notices are what is asked for and not served, by whom it may be, and what else
// is no mistake for certain.
func (w *world) notices() []topology.Problem {
	list := append(append(w.view.AllNotices(), w.udpTold(true)...), w.unknownNodes()...)
	if fault := w.unitFault(); fault != "" {
		list = append(list, topology.Problem{Object: "node " + w.view.Viewpoint.Name, Field: "metadata.labels", Text: fault})
	}
	return list
}
