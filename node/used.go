package node

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	// usedMax is how many clusters are kept as used, here and in the state
	// file; Envoy fetches the others at their first connection, as ever.
	usedMax = 1000
	// usedBurst are taken at once, then one every usedEvery: somebody who dials
	// every Service there is shall not put them in the place of those in use.
	usedBurst = 100
	usedEvery = 30 * time.Second
	// usedGone is how long one whose Service is gone is kept: it may come back.
	usedGone = 24 * time.Hour
)

// used are the clusters that Envoy asked for by name: those that are preloaded
// for it, and those that wait to be. It alone says which are kept.
type used struct {
	seen    map[string]*use // that are kept
	uses    int             // counts them all
	waiting []string        // oldest first, each once, bounded
	queued  map[string]bool // are in waiting
	credit  float64
	at      time.Time // of credit; zero before the first
}

// use is a cluster that is kept.
type use struct {
	place int       // the later used, the higher
	there time.Time // when it was last a Service's
}

func newUsed() used {
	return used{seen: map[string]*use{}, queued: map[string]bool{}, credit: usedBurst}
}

func (u *used) keep(name string, now time.Time) {
	u.uses++
	u.seen[name] = &use{place: u.uses, there: now}
}

// restore takes what a run before used, as far as it fits: the latest, which
// are last.
func (u *used) restore(names []string, now time.Time) {
	for _, name := range names[max(0, len(names)-usedMax):] {
		u.keep(name, now)
	}
}

// names are those that are kept, the oldest use first.
func (u *used) names() []string {
	list := slices.Collect(maps.Keys(u.seen))
	slices.SortFunc(list, func(a, b string) int { return u.seen[a].place - u.seen[b].place })
	return list
}

func (u *used) has(name string) bool { _, ok := u.seen[name]; return ok }

// ask notes that Envoy asked for a cluster.
func (u *used) ask(name string) {
	if u.has(name) || u.queued[name] || len(u.waiting) >= usedMax {
		return
	}
	u.queued[name] = true
	u.waiting = append(u.waiting, name)
}

// admit keeps those whose time has come, and reports whether there were any.
func (u *used) admit(now time.Time) bool {
	if !u.at.IsZero() {
		u.credit = min(usedBurst, u.credit+max(0, now.Sub(u.at).Seconds())/usedEvery.Seconds())
	}
	u.at = now
	n := min(len(u.waiting), int(u.credit), usedMax-len(u.seen))
	if n <= 0 {
		return false
	}
	for _, name := range u.waiting[:n] {
		u.keep(name, now)
		delete(u.queued, name)
	}
	u.waiting, u.credit = u.waiting[n:], u.credit-float64(n)
	return true
}

// age forgets those whose Service has been gone for long, and reports whether
// there were any that were kept.
func (u *used) age(exists func(name string) bool, now time.Time) (forgot bool) {
	for name, use := range u.seen {
		switch {
		case exists(name):
			use.there = now
		case now.Sub(use.there) > usedGone:
			delete(u.seen, name)
			forgot = true
		}
	}
	u.waiting = slices.DeleteFunc(u.waiting, func(name string) bool {
		if exists(name) {
			return false
		}
		delete(u.queued, name)
		return true
	})
	return forgot
}

// notes says where Envoy fetches more than is kept for it.
func (u *used) notes() []string {
	if len(u.waiting) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d clusters that Envoy fetched are not preloaded for it: %d of at most %d are, and one more every %s; somebody dials many Services once", len(u.waiting), len(u.seen), usedMax, usedEvery)}
}
