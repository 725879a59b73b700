package node

import (
	"cmp"
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
	// usedGrain is how exactly it is known when one had its last connection.
	usedGrain = time.Hour
	// usedIdle is how long one without connections is kept, and waitIdle how
	// long one waits for its turn: who dials everything once does not come back.
	usedIdle = 7 * 24 * time.Hour
	waitIdle = usedGrain
)

// worth is what a cluster is worth to be kept, the least first.
type worth int

const (
	usedOnce   worth = iota // in a single hour
	usedBefore              // kept by a run before
	usedAgain               // in more than one hour
)

// used are the clusters that Envoy asked for by name or had connections to:
// those that are preloaded for it, and those that wait to be. It alone says
// which are kept: what is used again and again is, for as long as that goes on.
// Idleness is measured while Envoy tells of connections, and not otherwise.
type used struct {
	seen    map[string]*use          // that are kept
	uses    int                      // counts them all
	waiting []string                 // oldest first, each once, bounded
	queued  map[string]time.Duration // since when each waits, by watched
	credit  float64
	at      time.Time // of credit; zero before the first

	watched time.Duration // for how long it was known what is in use
	looked  time.Time     // when it was known last; zero: never
}

// use is a cluster that is kept.
type use struct {
	place int           // the later used, the higher
	there time.Time     // when it was last a Service's
	last  time.Duration // when it was used, by used.watched
	worth worth
}

func newUsed() used {
	return used{seen: map[string]*use{}, queued: map[string]time.Duration{}, credit: usedBurst}
}

func (u *used) keep(name string, now time.Time) {
	u.uses++
	u.seen[name] = &use{place: u.uses, there: now, last: u.watched}
}

// restore takes what a run before used, as far as it fits: the latest, which
// are last.
func (u *used) restore(names []string, now time.Time) {
	for _, name := range names[max(0, len(names)-usedMax):] {
		u.keep(name, now)
		u.seen[name].worth = usedBefore
	}
}

// names are those that are kept, in the order in which they give way to others:
// here, and to what else --preload-max leaves room for.
func (u *used) names() []string {
	list := slices.Collect(maps.Keys(u.seen))
	slices.SortFunc(list, func(a, b string) int { return u.seen[a].compare(u.seen[b]) })
	return list
}

// compare puts first what gives way first: what was used longest ago of what is
// worth least.
func (u *use) compare(o *use) int { return cmp.Or(cmp.Compare(u.worth, o.worth), u.place-o.place) }

func (u *used) has(name string) bool { _, ok := u.seen[name]; return ok }

// inUse takes the clusters that had connections since it was last called, and
// reports whether that changed the order of those that are kept.
func (u *used) inUse(names []string, at time.Time) (moved bool) {
	if !u.looked.IsZero() {
		// Nobody looked through a longer gap.
		u.watched += min(max(0, at.Sub(u.looked)), 2*askEnvoyEvery)
	}
	u.looked = at
	again := map[string]bool{}
	for _, name := range names {
		use, kept := u.seen[name]
		since, waits := u.queued[name]
		switch {
		case waits && u.watched-since >= 2*askEnvoyEvery:
			again[name] = true
		case !kept:
			u.ask(name)
		case u.watched-use.last >= usedGrain:
			u.uses++
			use.place, use.last, use.worth = u.uses, u.watched, usedAgain
			moved = true
		}
	}
	u.waiting = slices.DeleteFunc(u.waiting, func(name string) bool {
		gone := !again[name] && u.watched-u.queued[name] >= waitIdle
		if gone {
			delete(u.queued, name)
		}
		return gone
	})
	// Who dials everything once does not come back to it.
	slices.SortStableFunc(u.waiting, func(a, b string) int { return cmp.Compare(rank(again[a]), rank(again[b])) })
	return moved
}

// rank puts first what is wanted first.
func rank(first bool) int {
	if first {
		return 0
	}
	return 1
}

// ask notes that Envoy asked for a cluster.
func (u *used) ask(name string) {
	if _, waits := u.queued[name]; waits || u.has(name) || len(u.waiting) >= usedMax {
		return
	}
	u.queued[name] = u.watched
	u.waiting = append(u.waiting, name)
}

// admit keeps those whose time has come, and reports whether there were any.
func (u *used) admit(now time.Time) bool {
	if !u.at.IsZero() {
		u.credit = min(usedBurst, u.credit+max(0, now.Sub(u.at).Seconds())/usedEvery.Seconds())
	}
	u.at = now
	n := 0
	for n < len(u.waiting) && u.credit >= 1 && u.room() {
		name := u.waiting[n]
		u.keep(name, now)
		delete(u.queued, name)
		u.credit--
		n++
	}
	u.waiting = u.waiting[n:]
	return n > 0
}

// room reports whether there is room for one more. Where there is none, the
// first of names gives way that was not used in more than one hour, once that
// hour is over.
func (u *used) room() bool {
	if len(u.seen) < usedMax {
		return true
	}
	oldest := ""
	for name, use := range u.seen {
		if use.worth < usedAgain && u.watched-use.last >= usedGrain && (oldest == "" || use.compare(u.seen[oldest]) < 0) {
			oldest = name
		}
	}
	delete(u.seen, oldest)
	return oldest != ""
}

// age forgets those whose Service has been gone for long, or that nobody used
// for longer, and reports whether there were any that were kept.
func (u *used) age(exists func(name string) bool, now time.Time) (forgot bool) {
	for name, use := range u.seen {
		there := exists(name)
		if there {
			use.there = now
		}
		if now.Sub(use.there) > usedGone || u.watched-use.last > usedIdle {
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
	return []string{fmt.Sprintf("%d clusters that Envoy fetched are not preloaded for it: %d of at most %d are, and one more every %s where there is room; somebody dials many Services once", len(u.waiting), len(u.seen), usedMax, usedEvery)}
}
