package preload

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// held are the clusters that Envoy holds because they were near, and are no more: used or
// not, it has them, and who dials them was not refused. They stay while they are used, for
// it may take hours until all of them had their turn, and for WaitIdle. They take nobody's
// turn nor place in Used, so that nothing is gained by having been near.
type held map[string]near

type near struct {
	last time.Duration // when it was used or fell, by Used.watched
	used bool          // since it fell
}

// Hold takes what is near no more. Where there are too many, what was used longest ago goes.
func (u *Used) Hold(fallen []string) {
	for _, name := range fallen {
		if !u.has(name) {
			u.held[name] = near{last: u.watched}
		}
	}
	if len(u.held) <= Most {
		return
	}
	for _, name := range u.held.names()[:len(u.held)-Most] {
		delete(u.held, name)
	}
}

// names are sorted, what gives way first is first.
func (h held) names() []string {
	list := slices.Collect(maps.Keys(h))
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(cmp.Compare(h[a].last, h[b].last), cmp.Compare(a, b)) })
	return list
}

// use notes that one has connections.
func (h held) use(name string, now time.Duration) {
	if _, ok := h[name]; ok {
		h[name] = near{now, true}
	}
}

// age lets go of what nobody uses, and reports whether there was any.
func (h held) age(exists func(name string) bool, now time.Duration) bool {
	n := len(h)
	maps.DeleteFunc(h, func(name string, n near) bool { return now-n.last > WaitIdle || !exists(name) })
	return len(h) < n
}
