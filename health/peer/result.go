package peer

import "github.com/gridmesh/gridmesh/health/vote"

// result takes a report.
func (p *Peer) result(c *call, m request) (out reply, why refusal) {
	out.setVote(p.node.Report(c.Context(), vote.Reported{
		From: m.From, Results: ofUnit(c.u, m.From, m.Results.results()), Up: m.Up, Hears: m.Hears, Holds: m.Holds,
	}))
	if !m.Up && m.UID != "" && c.u.Live && (m.View != c.u.View || m.Where != "" && m.Where != c.u.where) {
		out.Members = c.u.list()
	}
	return out, ""
}
