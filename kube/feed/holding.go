package feed

import "github.com/gridmesh/gridmesh/topology"

// holding is what one watch has told and not taken back. The watch's own
// goroutine writes it, with the feed's lock held, and may read it without.
type holding[V any] struct {
	objects map[topology.ObjectKey]held[V]
	shared  *shared[V]
}

type held[V any] struct {
	value  V
	weight int
}

// shared are the holdings of watches between which a label moves an object.
// Their events come in no common order: one watch may have told that it is
// there before the other tells that it is gone, or long after. What was told
// last stands, and what one of them takes back the other may still have.
type shared[V any] []*holding[V]

// newHolding is for a watch that shares its objects with others, or has them
// alone.
func newHolding[V any](with ...*shared[V]) *holding[V] {
	h := &holding[V]{objects: map[topology.ObjectKey]held[V]{}, shared: &shared[V]{}}
	for _, s := range with {
		h.shared = s
	}
	*h.shared = append(*h.shared, h)
	return h
}

// set notes an object. One that changed nothing is the builder's already, and
// is not kept twice.
func (h *holding[V]) set(o *object[V], changed bool) {
	next := held[V]{o.value, o.weight}
	was, had := h.objects[o.key]
	if _, other := h.elsewhere(o.key); had && !changed && !other {
		next.value = was.value
	}
	h.objects[o.key] = next
}

func (h *holding[V]) remove(key topology.ObjectKey) { delete(h.objects, key) }

// elsewhere returns what another watch has of the same object.
func (h *holding[V]) elsewhere(key topology.ObjectKey) (v V, ok bool) {
	for _, other := range *h.shared {
		if o, has := other.objects[key]; has && other != h {
			return o.value, true
		}
	}
	return v, false
}
