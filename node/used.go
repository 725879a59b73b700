package node

import (
	"fmt"
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
// for it, and those that wait to be.
type used struct {
	seen    map[string]time.Time // taken -> when it was last a Service's
	waiting []string             // oldest first, each once, bounded
	queued  map[string]bool      // are in waiting
	credit  float64
	at      time.Time // of credit; zero before the first
}

func newUsed() used {
	return used{seen: map[string]time.Time{}, queued: map[string]bool{}, credit: usedBurst}
}

// restore takes what a run before used, as far as it fits: the latest, which
// are last.
func (u *used) restore(names []string, now time.Time) []string {
	names = names[max(0, len(names)-usedMax):]
	for _, name := range names {
		u.seen[name] = now
	}
	return names
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

// admit returns those whose time has come.
func (u *used) admit(now time.Time) []string {
	if !u.at.IsZero() {
		u.credit = min(usedBurst, u.credit+max(0, now.Sub(u.at).Seconds())/usedEvery.Seconds())
	}
	u.at = now
	n := min(len(u.waiting), int(u.credit), usedMax-len(u.seen))
	if n <= 0 {
		return nil
	}
	list := u.waiting[:n:n]
	u.waiting, u.credit = u.waiting[n:], u.credit-float64(n)
	for _, name := range list {
		u.seen[name] = now
		delete(u.queued, name)
	}
	return list
}

// age forgets those whose Service has been gone for long.
func (u *used) age(exists func(name string) bool, now time.Time) {
	for name, at := range u.seen {
		switch {
		case exists(name):
			u.seen[name] = now
		case now.Sub(at) > usedGone:
			delete(u.seen, name)
		}
	}
	u.waiting = slices.DeleteFunc(u.waiting, func(name string) bool {
		if exists(name) {
			return false
		}
		delete(u.queued, name)
		return true
	})
}

// notes says where Envoy fetches more than is kept for it.
func (u *used) notes() []string {
	if len(u.waiting) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d clusters that Envoy fetched are not preloaded for it: %d of at most %d are, and one more every %s; somebody dials many Services once", len(u.waiting), len(u.seen), usedMax, usedEvery)}
}
