package soak

import (
	"time"

	"github.com/gridmesh/gridmesh/test/soak/model"
	"github.com/gridmesh/gridmesh/topology"
)

// affinitySpare is how much before its time an affinity may be over: it is counted in
// whole seconds from a packet that is none of the dial's first or last.
const affinitySpare = time.Second

// remembered are the last answered dials of clients, by frontend.
type remembered map[dialler]*dial

type dialler struct {
	from string
	to   topology.Frontend
}

// forgets reports whether a client was answered by another than before, though its node
// was to remember that, and nothing that it goes by has changed.
func (s *Soak) forgets(last remembered, d *dial) bool {
	if d.name || d.err != nil || s.told[d.node].Options.Datapath == topology.DatapathNone {
		return false
	}
	key := dialler{d.from, d.frontend()}
	before := last[key]
	last[key] = d
	// Who takes the rules away takes what they remember.
	if before == nil || s.troubles.Any(d.node, model.Bare, before.began.Add(-grace), d.ended) {
		return false
	}
	kept, ok := s.history.Affinity(s.told[d.node], d.frontend(), s.span(d.node, before.began, d.ended))
	if !ok || d.ended.Sub(before.began) >= kept-affinitySpare {
		return false
	}
	s.tally.kept++
	return d.answered != before.answered
}
