package peer

import (
	"context"
	"slices"

	"github.com/gridmesh/gridmesh/health/vote"
)

// probe answers a question.
func (p *Peer) probe(c *call, m request) (out reply, why refusal) {
	var nodes []string
	for _, t := range m.Targets {
		if c.u.means(t) { // of another node under that name, or elsewhere, this one has nothing to say
			nodes = append(nodes, t.Name)
		}
	}
	results, ok := p.look(c.Context(), p.asking, c.u, nodes)
	if !ok {
		return out, busy
	}
	out.Results = newAnswers(results)
	return out, ""
}

// look has the node look at others of its unit, where there is room for who asks. Nobody
// else is dialled, whoever asks.
func (p *Peer) look(ctx context.Context, room chan struct{}, u *unit, nodes []string) (results []vote.Result, ok bool) {
	select {
	case room <- struct{}{}:
		defer func() { <-room }()
	default:
		return nil, false
	}
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(name string) bool { return !u.has(name) || name == u.Self })
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	if len(nodes) == 0 {
		return nil, true
	}
	results = slices.DeleteFunc(ofUnit(u, u.Self, p.node.Probe(ctx, nodes)), func(r vote.Result) bool {
		_, asked := slices.BinarySearch(nodes, r.Node)
		return !asked
	})
	return results, true
}
