// Package table is an immutable map that shares what did not change with the
// map it was made from. Snapshots, views and catalogs are made of it: a new
// version costs what changed, and so does finding what changed between two.
//
//	e := old.Edit()              // of one owner; a nil *Map is the empty one
//	e.Set(key, value)
//	e.Delete(other)
//	next := e.Freeze()           // for every goroutine, for ever the same
//	for key := range old.Changed(next) { … }
//
// Values are compared with ==. They are pointers to what nobody writes to any
// more, so that a value that was made anew counts as changed even if it says
// the same: whoever makes values keeps the old pointer where it can.
//
// The map is cut into 256 shards by a hash of the key; an edit copies the
// shards that it writes to, once. With n entries a change costs about n/256
// copied entries, and Changed 256 comparisons and n/256 entries for every
// shard that was written to. Why it is no library's: docs/adr/0005.
package table

import (
	"hash/maphash"
	"iter"
	"maps"
	"slices"
)

const shardCount = 256

// One seed a process is enough: only pointers of the same process are compared.
var shardSeed = maphash.MakeSeed()

// Map is an immutable map in shards. Maps that stem from each other share the
// shards that did not change. A nil Map is empty.
type Map[K comparable, V comparable] struct {
	shards [shardCount]*shard[K, V]
	size   int
}

type shard[K comparable, V comparable] struct{ m map[K]V }

func (s *shard[K, V]) entries() map[K]V {
	if s == nil {
		return nil
	}
	return s.m
}

// Get returns the value of k.
func (t *Map[K, V]) Get(k K) (V, bool) {
	if t == nil {
		var zero V
		return zero, false
	}
	v, ok := t.shards[shardOf(k)].entries()[k]
	return v, ok
}

// Len is the number of entries.
func (t *Map[K, V]) Len() int {
	if t == nil {
		return 0
	}
	return t.size
}

// All yields every entry, in no order.
func (t *Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if t == nil {
			return
		}
		for i := range t.shards {
			for k, v := range t.shards[i].entries() {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}

// SortedKeys returns every key in the order of compare.
func (t *Map[K, V]) SortedKeys(compare func(a, b K) int) []K {
	keys := make([]K, 0, t.Len())
	for k := range t.All() {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compare)
	return keys
}

// Changed yields the keys whose value differs between t and next, gone and
// new ones included, in no order. It is right for any two maps, and fast for
// those that stem from each other.
func (t *Map[K, V]) Changed(next *Map[K, V]) iter.Seq[K] {
	return func(yield func(K) bool) {
		for i := range shardCount {
			was, is := t.shard(i), next.shard(i)
			if was == is {
				continue
			}
			a, b := was.entries(), is.entries()
			for k, v := range a {
				if w, ok := b[k]; !ok || w != v {
					if !yield(k) {
						return
					}
				}
			}
			for k := range b {
				if _, ok := a[k]; !ok && !yield(k) {
					return
				}
			}
		}
	}
}

// Edit starts a changed copy. Shards are copied as they are written to.
func (t *Map[K, V]) Edit() *Edit[K, V] {
	e := &Edit[K, V]{}
	if t != nil {
		e.t = *t
	}
	return e
}

// Edit collects changes to a Map. One goroutine uses it.
type Edit[K comparable, V comparable] struct {
	t     Map[K, V]
	owned [shardCount]bool
}

// Get returns the value of k as edited so far.
func (e *Edit[K, V]) Get(k K) (V, bool) { return e.t.Get(k) }

// Set stores v under k.
func (e *Edit[K, V]) Set(k K, v V) {
	s := e.shard(k)
	if _, had := s[k]; !had {
		e.t.size++
	}
	s[k] = v
}

// Delete removes k.
func (e *Edit[K, V]) Delete(k K) {
	if _, had := e.t.Get(k); had {
		delete(e.shard(k), k)
		e.t.size--
	}
}

// Freeze returns the map as edited; the edit can go on, on a copy.
func (e *Edit[K, V]) Freeze() *Map[K, V] {
	t := e.t
	e.owned = [shardCount]bool{}
	return &t
}

func (e *Edit[K, V]) shard(k K) map[K]V {
	i := shardOf(k)
	if !e.owned[i] {
		e.owned[i] = true
		m := maps.Clone(e.t.shards[i].entries())
		if m == nil {
			m = map[K]V{}
		}
		e.t.shards[i] = &shard[K, V]{m}
	}
	return e.t.shards[i].m
}

func (t *Map[K, V]) shard(i int) *shard[K, V] {
	if t == nil {
		return nil
	}
	return t.shards[i]
}

func shardOf[K comparable](k K) int {
	return int(maphash.Comparable(shardSeed, k) % shardCount)
}
