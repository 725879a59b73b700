package preload

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// held are the clusters that Envoy holds because they were near, and are no more: used or
// not, it has them, and who dials them was not refused. They stay while they are used, for
// it may take hours until all of them had their turn, and for WaitIdle, by the clock: Envoy
// may never say again what is in use. They take nobody's turn nor place in Used, so that
// nothing is gained by having been near, neither by a restart.
type held map[string]near

type near struct {
	last time.Time // when it was used or fell
	used bool      // since it fell
}

// heldSuffix ends the names of Lasting that are held; no cluster's name ends so.
const heldSuffix = "/held"

// Hold takes what is near no more. Where there are too many, what was used longest ago
// goes, and before that what was not used.
func (u *Used) Hold(fallen []string, now time.Time) {
	for _, name := range fallen {
		if !u.has(name) {
			u.held[name] = near{last: now}
		}
	}
	u.held.bound()
}

// bound lets go of what is too many.
func (h held) bound() {
	if len(h) <= Most {
		return
	}
	idle, used := h.names()
	for _, name := range append(idle, used...)[:len(h)-Most] {
		delete(h, name)
	}
}

// names are sorted, what gives way first is first.
func (h held) names() (idle, used []string) {
	list := slices.SortedFunc(maps.Keys(h), func(a, b string) int { return cmp.Or(h[a].last.Compare(h[b].last), cmp.Compare(a, b)) })
	for _, name := range list {
		if h[name].used {
			used = append(used, name)
		} else {
			idle = append(idle, name)
		}
	}
	return idle, used
}

// use notes that one has connections, and reports whether it was idle until now.
func (h held) use(name string, now time.Time) (first bool) {
	n, ok := h[name]
	if ok {
		h[name] = near{now, true}
	}
	return ok && !n.used
}

// Idle are those that are held and that nobody used since they fell, what gives way first
// is first. None of Names is among them.
func (u *Used) Idle() []string {
	idle, _ := u.held.names()
	return idle
}

// Lasting are those of Names that a run after this one is to have, for Restore.
func (u *Used) Lasting() []string {
	_, names := u.held.names()
	for i := range names {
		names[i] += heldSuffix
	}
	return append(names, u.kept()...)
}

// restoreHeld takes those of Lasting that were held, and returns the others.
func (u *Used) restoreHeld(names []string, now time.Time) (kept []string) {
	for _, name := range names {
		name, was := strings.CutSuffix(name, heldSuffix)
		if !was {
			kept = append(kept, name)
		} else if _, is := u.held[name]; !is && !u.has(name) {
			u.held[name] = near{now, true}
		}
	}
	u.held.bound()
	return kept
}

// AgeHeld lets go of what is held and nobody uses, or is no Service's, and reports whether
// there was any.
func (u *Used) AgeHeld(exists func(name string) bool, now time.Time) (forgot bool) {
	n := len(u.held)
	maps.DeleteFunc(u.held, func(name string, n near) bool { return now.Sub(n.last) > WaitIdle || !exists(name) })
	return len(u.held) < n
}
