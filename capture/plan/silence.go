package plan

import "time"

// Silence tells which connections wait for an answer for too long. The zero
// value has seen none.
type Silence[K comparable] struct{ since map[K]time.Time }

// Judge takes all that wait at a time, and returns those that did so in every
// judgement of the last while. Who is not among them was answered.
func (s *Silence[K]) Judge(waiting []K, now time.Time, while time.Duration) (dead []K) {
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

// Forget begins anew, after a time in which nobody judged.
func (s *Silence[K]) Forget() { s.since = nil }
