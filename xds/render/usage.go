package render

import (
	"cmp"
	"slices"
)

// maxUsed bounds what is remembered of use: a pod that dials every frontend
// once must not make the last good state grow, nor displace for long what is
// in use.
const maxUsed = 2000

// usage remembers the clusters that were used last.
type usage struct {
	max  int
	last map[string]uint64 // cluster -> when, by clock
	now  uint64            // counts uses
}

func newUsage(most int) *usage { return &usage{max: most, last: map[string]uint64{}} }

func (u *usage) has(name string) bool { return u.last[name] > 0 }

// add notes uses, and returns what is forgotten for them and whether any was new.
func (u *usage) add(names ...string) (forgotten []string, fresh bool) {
	for _, name := range names {
		fresh = fresh || !u.has(name)
		u.now++
		u.last[name] = u.now
	}
	if n := len(u.last) - u.max; n > 0 {
		forgotten = u.names()[:n]
		for _, name := range forgotten {
			delete(u.last, name)
		}
	}
	return forgotten, fresh
}

// names returns what is remembered, the oldest use first.
func (u *usage) names() []string {
	list := make([]string, 0, len(u.last))
	for name := range u.last {
		list = append(list, name)
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Compare(u.last[a], u.last[b]) })
	return list
}
