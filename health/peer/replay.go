package peer

import "slices"

// sender is what is remembered of another node of the unit.
type sender struct {
	seen   []seen // the eldest first
	signed bool   // it is one of ours
}

// seen is a request that was taken.
type seen struct {
	nonce [nonceBytes]byte
	sent  int64
}

// mostSeen is how many requests of one sender count within window, and are remembered: of one
// that leads a question for each hundred nodes in each round, of all others three. Nobody
// takes another one's room.
func mostSeen(nodes int) int { return min(64+nodes/10, 256) }

// take notes a request that counts at a time of this node's clock, or says why it is none.
func (s *sender) take(here int64, nonce [nonceBytes]byte, sent int64, most int) refusal {
	s.age(here)
	switch {
	case slices.ContainsFunc(s.seen, func(o seen) bool { return o.nonce == nonce }):
		return replayed
	case len(s.seen) >= most:
		return busy
	}
	s.seen = append(s.seen, seen{nonce, sent})
	return ""
}

// age forgets what would be refused for its age.
func (s *sender) age(here int64) {
	s.seen = slices.DeleteFunc(s.seen, func(o seen) bool { return o.sent < here-window.Milliseconds() })
}
