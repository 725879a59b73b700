package plan

import "time"

// unjudged is for how long nobody may have judged: in a longer time a connection
// may have been answered, and wait again.
const unjudged = 5 * time.Second

// Stalled tells which connections wait for an answer for too long. The zero
// value has seen none.
type Stalled[K comparable] struct {
	since map[K]time.Time
	last  time.Time // judgement
}

// Judge takes all that wait at a time, and returns those that did so in every
// judgement of the last while. Who is not among them was answered. After a time
// in which nobody judged it begins anew.
func (s *Stalled[K]) Judge(waiting []K, now time.Time, while time.Duration) (dead []K) {
	if now.Sub(s.last) > unjudged {
		s.since = nil
	}
	s.last = now
	next := make(map[K]time.Time, len(waiting))
	for _, k := range waiting {
		next[k] = now
		if since, was := s.since[k]; was {
			next[k] = since
		}
		if now.Sub(next[k]) >= while {
			dead = append(dead, k)
		}
	}
	s.since = next
	return dead
}
