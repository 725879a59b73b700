package render

import (
	"cmp"

	"github.com/gridmesh/gridmesh/topology"
)

// preloadShare is the candidates of one namespace. Its first are chosen. Shares take
// turns, so that who may write Services in one namespace cannot take the place of
// everybody's.
type preloadShare struct {
	namespace string
	chosen    pile[*candidate] // the last of them on top
	others    pile[*candidate] // the first of them on top
	taken     int              // places of chosen

	atNext, atLast int // its places in preloadShares
}

func newPreloadShare(namespace string) *preloadShare {
	place := func(c *candidate) *int { return &c.at }
	return &preloadShare{
		namespace: namespace,
		chosen:    pile[*candidate]{place: place, compare: func(a, b *candidate) int { return compareCandidates(b, a) }},
		others:    pile[*candidate]{place: place, compare: compareCandidates},
	}
}

func (s *preloadShare) pile(chosen bool) *pile[*candidate] {
	if chosen {
		return &s.chosen
	}
	return &s.others
}

// disorder reports whether one who waits belongs before one who is chosen.
func (s *preloadShare) disorder() bool {
	return s.chosen.Len() > 0 && s.others.Len() > 0 && compareCandidates(s.others.top(), s.chosen.top()) < 0
}

// preloadShares are all shares. A candidate's turn is how many places it and
// those of its share that come before it take. What some key of the node's makes near
// comes first (nothing else need serve with cloud and agent dead), and what nobody uses
// last; of each of the three parts those whose turn is beyond half of all places come
// behind; then the order is by rank, then turn, then candidate.
type preloadShares struct {
	half int
	all  map[string]*preloadShare
	next pile[*preloadShare] // on top: whose first of those that wait is the first of all
	last pile[*preloadShare] // on top: whose last chosen is the last of all
}

func newPreloadShares(half int) preloadShares {
	compareTurns := func(a, b *candidate) int { return compareTurns(half, a, b) }
	return preloadShares{
		half: half,
		all:  map[string]*preloadShare{},
		next: pile[*preloadShare]{
			place:   func(s *preloadShare) *int { return &s.atNext },
			compare: func(a, b *preloadShare) int { return compareTurns(a.others.top(), b.others.top()) },
		},
		last: pile[*preloadShare]{
			place:   func(s *preloadShare) *int { return &s.atLast },
			compare: func(a, b *preloadShare) int { return compareTurns(b.chosen.top(), a.chosen.top()) },
		},
	}
}

// compareTurns orders two candidates that are the first to wait, or the last
// that is chosen, of their shares.
func compareTurns(half int, a, b *candidate) int {
	part := func(c *candidate) int {
		switch {
		case c.rank < topology.RankShared:
			return 0
		case c.rank < rankHeld:
			return 1
		}
		return 2
	}
	behind := func(c *candidate) int {
		if c.rank == topology.RankAlways || c.turn() <= half {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(part(a), part(b)), cmp.Compare(behind(a), behind(b)), cmp.Compare(a.rank, b.rank), cmp.Compare(a.turn(), b.turn()), compareCandidates(a, b))
}

// turn is right of such ones alone.
func (c *candidate) turn() int {
	if c.chosen {
		return c.share.taken
	}
	return c.share.taken + c.places
}

// get returns a share, a new one where there is none.
func (p *preloadShares) get(namespace string) *preloadShare {
	s, ok := p.all[namespace]
	if !ok {
		s = newPreloadShare(namespace)
		p.all[namespace] = s
	}
	return s
}

// settle finds a share's places anew, after what is in it changed.
func (p *preloadShares) settle(s *preloadShare) {
	if s.others.Len() > 0 {
		p.next.put(s)
	} else {
		p.next.drop(s)
	}
	if s.chosen.Len() > 0 {
		p.last.put(s)
	} else {
		p.last.drop(s)
	}
}

// forget forgets a share that has nobody.
func (p *preloadShares) forget(s *preloadShare) {
	if s.others.Len()+s.chosen.Len() == 0 {
		delete(p.all, s.namespace)
	}
}

// first is the first of those that wait, nil for none.
func (p *preloadShares) first() *candidate {
	if p.next.Len() == 0 {
		return nil
	}
	return p.next.top().others.top()
}

// worst is the last of those that are chosen, nil for none.
func (p *preloadShares) worst() *candidate {
	if p.last.Len() == 0 {
		return nil
	}
	return p.last.top().chosen.top()
}

// disorder reports whether first belongs before worst.
func (p *preloadShares) disorder() bool {
	first, worst := p.first(), p.worst()
	return first != nil && worst != nil && compareTurns(p.half, first, worst) < 0
}
