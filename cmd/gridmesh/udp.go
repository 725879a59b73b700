package main

import (
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/topology/refusal"
	"github.com/gridmesh/gridmesh/xds/render"
)

// udpRefused are the UDP frontends that have endpoints and that Envoy gets no
// listener for, and why: what gridmesh xds says of them.
func (w *world) udpRefused() map[topology.Frontend]*refusal.Cause {
	if w.refused == nil {
		w.refused = w.refuseUDP()
	}
	return w.refused
}

func (w *world) refuseUDP() map[topology.Frontend]*refusal.Cause {
	refused, cat := map[topology.Frontend]*refusal.Cause{}, w.catalog(0)
	for _, s := range w.view.Services.All() {
		for i := range s.Frontends {
			f := &s.Frontends[i]
			if f.Protocol != topology.UDP || f.Path != topology.PathEnvoy || len(f.Tiers) == 0 || cat.Preloaded(render.ClusterName(f.Frontend)) {
				continue
			}
			why, cure := render.RefusedUDP(s, f)
			if why == "" {
				why, cure = "the node has no UDP listener left for it", "give Services fewer UDP ports, or run the agent with --datapath auto"
			}
			refused[f.Frontend] = &refusal.Cause{Service: s.Key.String(), Why: f.String() + " is refused: " + why, Cure: cure}
		}
	}
	return refused
}

// cause is why an address of Services answers nobody here.
func (w *world) cause(to topology.Frontend) *refusal.Cause {
	if c := w.udpRefused()[to]; c != nil {
		return c
	}
	return refusal.Of(w.snap, w.view, w.opts, to)
}

// notices are what is asked for and not served, by whom it may be, and what else
// is no mistake for certain.
func (w *world) notices() []topology.Problem {
	list, refused := w.view.AllNotices(), w.udpRefused()
	for _, s := range w.view.Sorted() {
		for i := range s.Frontends {
			if c := refused[s.Frontends[i].Frontend]; c != nil {
				list = append(list, topology.Problem{Object: "service " + c.Service, Field: "spec.ports", Text: c.Why + "; " + c.Cure})
			}
		}
	}
	return append(list, w.snap.UnknownNodeNotices()...)
}
