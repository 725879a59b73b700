package feed

import (
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// span is how long it is remembered what lists took away. Lists that take a
// little less than half each, one right after the other, take as much as one
// that takes nearly all: what they leave is held against all of it.
const span = time.Minute

// memory is what the lists of one watch took away lately, and no event of the
// watch said anything about since: an event is believed.
//
// It is dropped with the first event after the span, a bookmark too, which an
// API server sends every minute.
type memory map[topology.ObjectKey]loss

// loss is the weight that an object had before lists took of it, and when the
// last of them did.
type loss struct {
	weight int
	at     time.Time
}

// taken notes what a list took of an object.
func (m memory) taken(key topology.ObjectKey, weight int, now time.Time) {
	if l, ok := m[key]; ok {
		weight = max(weight, l.weight)
	}
	m[key] = loss{weight, now}
}

// forget drops what was too long ago.
func (m memory) forget(now time.Time) {
	for key, l := range m {
		if now.Sub(l.at) >= span {
			delete(m, key)
		}
	}
}

// weigh compares a list, by the weight of its objects, with what is known and
// what was.
func weigh[V any](known map[topology.ObjectKey]held[V], lost memory, list map[topology.ObjectKey]int) listed {
	l := listed{takes: map[topology.ObjectKey]int{}}
	for key, h := range known {
		was := max(h.weight, lost[key].weight)
		l.before += h.weight
		l.recent += was
		l.kept += min(was, list[key])
		if list[key] < h.weight {
			l.takes[key] = h.weight
		}
	}
	for key, gone := range lost {
		if _, is := known[key]; !is {
			l.recent += gone.weight
			l.kept += min(gone.weight, list[key])
		}
	}
	for _, weight := range list {
		l.after += weight
	}
	return l
}
