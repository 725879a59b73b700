package lists

import "time"

// Span is how long it is remembered what lists took away. Lists that take a
// little less than half each, one right after the other, take as much as one
// that takes nearly all: what they leave is held against all of it.
const Span = time.Minute

// Memory is what the lists of one watch took away lately, and no event of the
// watch said anything about since: an event is believed.
//
// It is dropped with the first event after the Span, a bookmark too, which an
// API server sends every minute.
type Memory[K comparable] map[K]loss

// loss is the weight that an object had before lists took of it, and when the
// last of them did.
type loss struct {
	weight int
	at     time.Time
}

// taken notes what a list took of an object.
func (m Memory[K]) taken(key K, weight int, now time.Time) {
	if l, ok := m[key]; ok {
		weight = max(weight, l.weight)
	}
	m[key] = loss{weight, now}
}

// Forget drops what was too long ago.
func (m Memory[K]) Forget(now time.Time) {
	for key, l := range m {
		if now.Sub(l.at) >= Span {
			delete(m, key)
		}
	}
}

// Weigh compares a list, by the weight of its objects, with what is known and
// what was.
func Weigh[K comparable, V any](known map[K]V, weight func(V) int, lost Memory[K], list map[K]int) List[K] {
	l := List[K]{Takes: map[K]int{}}
	for key, v := range known {
		is := weight(v)
		was := max(is, lost[key].weight)
		l.Before += is
		l.Recent += was
		l.Kept += min(was, list[key])
		if list[key] < is {
			l.Takes[key] = is
		}
	}
	for key, gone := range lost {
		if _, is := known[key]; !is {
			l.Recent += gone.weight
			l.Kept += min(gone.weight, list[key])
		}
	}
	for _, weight := range list {
		l.After += weight
	}
	return l
}
