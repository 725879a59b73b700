package peer

import (
	"fmt"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/health/vote"
)

// spoken is what a SuperEdge node reported last.
type spoken struct {
	at      time.Time
	results []vote.Result
}

// spokenOf is the answer of a SuperEdge node that lives and takes no questions, as none up to
// v0.7 does: what it reported last, as its own kind count it. Without that no unit of which
// they are half would decide anything.
func (p *Peer) spokenOf(m request) (got reply, err error) {
	p.mu.Lock()
	s, ok := p.spoke[m.To]
	p.mu.Unlock()
	if !ok || p.now().Sub(s.at) > p.cfg.LegacyFresh {
		return got, fmt.Errorf("%w: it takes no questions, and has not reported for %s", ErrRefused, p.cfg.LegacyFresh)
	}
	got.Results = newAnswers(slices.DeleteFunc(slices.Clone(s.results), func(r vote.Result) bool {
		return !slices.ContainsFunc(m.Targets, func(t requestTarget) bool { return t.Name == r.Node })
	}))
	return got, nil
}
