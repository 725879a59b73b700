package table

import (
	"iter"
	"maps"
)

// twin is Map done plainly: every version is a whole copy.
type twin map[int]int

func (w twin) edit() twin { return maps.Clone(w) }

func (w twin) changed(next twin) iter.Seq[int] {
	return func(yield func(int) bool) {
		for k, v := range w {
			if n, ok := next[k]; (!ok || n != v) && !yield(k) {
				return
			}
		}
		for k := range next {
			if _, ok := w[k]; !ok && !yield(k) {
				return
			}
		}
	}
}
