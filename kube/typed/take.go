package typed

import (
	"maps"
	"slices"
)

// mostBetween is of how many versions of an object one is told at once.
const mostBetween = 256

// Change is what became of an object since it was taken last.
type Change[T any] struct {
	Key string
	// Versions is how it was since, the oldest first, the last as it is: that one alone, but of a mirror that
	// is Following. None where it is gone.
	Versions []T
}

// Following has a mirror keep what objects are between two calls of Take, too: but for what a later version
// replaces, and for the oldest where there are too many. It comes before Run.
func (m *Mirror[T]) Following(replaces func(later, earlier T) bool) *Mirror[T] {
	m.replaces, m.between = replaces, map[string][]T{}
	return m
}

// Take are the objects of which what is kept changed since the last call of it or of Changes, by their keys.
func (m *Mirror[T]) Take() []Change[T] {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]Change[T], 0, len(m.changed))
	for _, key := range slices.Sorted(maps.Keys(m.changed)) {
		c := Change[T]{Key: key, Versions: m.between[key]}
		if t, ok := m.all[key]; ok {
			c.Versions = append(c.Versions, t)
		}
		list = append(list, c)
	}
	clear(m.changed)
	clear(m.between)
	return list
}

// passes notes that a version of an object is followed by another one. The lock is held.
func (m *Mirror[T]) passes(key string, was, is T) {
	if m.replaces == nil || !m.changed[key] { // or it was taken
		return
	}
	list := slices.DeleteFunc(append(m.between[key], was), func(t T) bool { return m.replaces(is, t) })
	m.between[key] = list[max(0, len(list)-mostBetween):]
}
