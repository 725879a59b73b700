package model

import (
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// Affinity is for how long a client of a node keeps who answers it at a frontend, where
// that does not depend on what the node knew: no object that it goes by had another
// version in the span, and none may have had one unseen.
func (h *History) Affinity(t *Told, f topology.Frontend, s Span) (time.Duration, bool) {
	w := window{h: h, t: t, from: s.From, to: s.To}
	list := w.at(f)
	if len(list) != 1 || !s.Held.IsZero() || w.gapped() {
		return 0, false
	}
	_, choices := w.choices(list[0])
	if slices.ContainsFunc(choices, func(c []int) bool { return len(c) != 1 }) {
		return 0, false
	}
	service := w.versions(ID{Service, list[0]})[0].service
	return time.Duration(service.Affinity) * time.Second, service.Affinity > 0
}

// gapped reports whether versions may be missing in the window.
func (w window) gapped() bool {
	return slices.ContainsFunc(w.h.gaps, func(g gap) bool { return !g.to.Before(w.from) && !g.from.After(w.to) })
}
