package preload

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	// LookEvery is how often Envoy is asked what it uses.
	LookEvery = 30 * time.Second
	// Most is how many clusters are kept as used, here and in the state
	// file; Envoy fetches the others at their first connection, as ever.
	Most = 1000
	// Burst are taken at once, then one every Every: somebody who dials
	// every Service there is shall not put them in the place of those in use.
	Burst = 100
	// Every is how long a further one waits for its turn.
	Every = 30 * time.Second
	// Gone is how long one whose Service is gone is kept: it may come back.
	Gone = 24 * time.Hour
	// usedGrain is how exactly it is known when one had its last connection.
	usedGrain = time.Hour
	// Idle is how long one without connections is kept.
	Idle = 7 * 24 * time.Hour
	// WaitIdle is how long one without connections waits for its turn: who
	// dials everything once does not come back.
	WaitIdle = usedGrain
	// MostWaiting is how many wait: enough to tell who comes back of all that somebody
	// dials in a round.
	MostWaiting = 10 * Most
	// lapse is when a waiter comes back no more. A pod that fails again and again is
	// started again within five minutes.
	lapse = 20 * LookEvery
)

// worth is what a cluster is worth to be kept, the least first.
type worth int

const (
	usedOnce   worth = iota // in a single hour
	usedBefore              // kept by a run before
	usedAgain               // in more than one hour
)

// Used are the clusters that Envoy asked for by name or had connections to:
// those that are preloaded for it, and those that wait to be. It alone says
// which are kept: what is used again and again is, for as long as that goes on.
// Idleness is measured while Envoy tells of connections, and not otherwise.
type Used struct {
	seen    map[string]*use    // that are kept
	uses    int                // counts them all
	waiting []*waiter          // whose turn comes first is first; each once, bounded
	queued  map[string]*waiter // those, by name
	held    held               // none of seen; some wait
	came    int                // counts them
	newest  bool               // whose turn comes first of those that come back
	credit  float64
	at      time.Time // of credit; zero before the first

	watched time.Duration // for how long it was known what is in use
	looked  time.Time     // when it was known last; zero: never
}

// use is a cluster that is kept.
type use struct {
	place int           // the later used, the higher
	there time.Time     // when it was last a Service's
	last  time.Duration // when it was used, by Used.watched
	worth worth
}

// waiter is a cluster that waits for its turn.
type waiter struct {
	name  string
	came  int           // the later, the higher
	last  time.Duration // when it was wanted, by Used.watched
	times int           // that it was wanted without a lapse, by looks at what is in use
}

// again reports whether it comes back: whoever dials everything once does not, and who is
// refused dials again and again.
func (w *waiter) again(now time.Duration) bool {
	return w.times > 2 && now-w.last < lapse // a connection may last from one look to the next
}

func (w *waiter) want(now time.Duration) {
	switch since := now - w.last; {
	case since >= lapse:
		w.last, w.times = now, 1
	case since >= LookEvery/2: // looks are not on the second
		w.last, w.times = now, w.times+1
	}
}

// NewUsed has none.
func NewUsed() Used {
	return Used{seen: map[string]*use{}, queued: map[string]*waiter{}, held: held{}, credit: Burst}
}

func (u *Used) keep(name string, now time.Time) {
	u.uses++
	delete(u.held, name)
	u.seen[name] = &use{place: u.uses, there: now, last: u.watched}
}

// Restore takes what a run before used, its Lasting, as far as it fits: the latest, which
// are last.
func (u *Used) Restore(names []string, now time.Time) {
	names = u.restoreHeld(names, now)
	for _, name := range names[max(0, len(names)-Most):] {
		if u.has(name) || len(u.seen) >= Most {
			continue // what came since is newer
		}
		u.keep(name, now)
		u.seen[name].worth = usedBefore
	}
}

// Names are those that are kept, or held and used, in the order in which they give way to
// others: here, and to what else --preload-max leaves room for.
func (u *Used) Names() []string {
	_, used := u.held.names()
	return append(used, u.kept()...)
}

func (u *Used) kept() []string {
	return slices.SortedFunc(maps.Keys(u.seen), func(a, b string) int { return u.seen[a].compare(u.seen[b]) })
}

// compare puts first what gives way first: what was used longest ago of what is
// worth least.
func (u *use) compare(o *use) int { return cmp.Or(cmp.Compare(u.worth, o.worth), u.place-o.place) }

func (u *Used) has(name string) bool { _, ok := u.seen[name]; return ok }

// InUse takes the clusters that had connections since it was last called, and
// reports whether that changed Names.
func (u *Used) InUse(names []string, at time.Time) (moved bool) {
	if !u.looked.IsZero() {
		// Nobody looked through a longer gap.
		u.watched += min(max(0, at.Sub(u.looked)), 2*LookEvery)
	}
	u.looked = at
	for _, name := range names {
		moved = u.held.use(name, at) || moved
		use, kept := u.seen[name]
		switch {
		case !kept:
			u.Ask(name)
		case u.watched-use.last >= usedGrain:
			u.uses++
			use.place, use.last, use.worth = u.uses, u.watched, usedAgain
			moved = true
		}
	}
	u.forget(func(w *waiter) bool { return u.watched-w.last >= WaitIdle })
	u.lineUp()
	return moved
}

// forget lets go of some that wait.
func (u *Used) forget(which func(*waiter) bool) {
	u.waiting = slices.DeleteFunc(u.waiting, func(w *waiter) bool {
		gone := which(w)
		if gone {
			delete(u.queued, w.name)
		}
		return gone
	})
}

// lineUp puts those first that come back: at every other look the newest of them, for a
// scan that goes on comes back as well, and was there before; else the eldest, for there
// may always be a newer one.
func (u *Used) lineUp() {
	u.newest = !u.newest
	slices.SortFunc(u.waiting, func(a, b *waiter) int {
		back := a.again(u.watched)
		switch {
		case back != b.again(u.watched) && back:
			return -1
		case back != b.again(u.watched):
			return 1
		case back && u.newest:
			return b.came - a.came
		}
		return a.came - b.came
	})
}

// Ask notes that Envoy asked for a cluster.
func (u *Used) Ask(name string) {
	if w := u.queued[name]; w != nil {
		w.want(u.watched)
		return
	}
	if u.has(name) || len(u.waiting) >= MostWaiting {
		return
	}
	u.came++
	w := &waiter{name: name, came: u.came, last: u.watched, times: 1}
	u.queued[name], u.waiting = w, append(u.waiting, w)
}

// Admit keeps those whose time has come, and reports whether there were any.
func (u *Used) Admit(now time.Time) bool {
	if !u.at.IsZero() {
		u.credit = min(Burst, u.credit+max(0, now.Sub(u.at).Seconds())/Every.Seconds())
	}
	u.at = now
	n := 0
	for n < len(u.waiting) && u.credit >= 1 && u.room() {
		name := u.waiting[n].name
		u.keep(name, now)
		delete(u.queued, name)
		u.credit--
		n++
	}
	u.waiting = u.waiting[n:]
	return n > 0
}

// room reports whether there is room for one more. Where there is none, the
// first of Names gives way that was not used in more than one hour, once that
// hour is over.
func (u *Used) room() bool {
	if len(u.seen) < Most {
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

// Age forgets those whose Service has been gone for long, or that nobody used
// for longer, and reports whether there were any that were held or kept.
func (u *Used) Age(exists func(name string) bool, now time.Time) (forgot bool) {
	for name, use := range u.seen {
		there := exists(name)
		if there {
			use.there = now
		}
		if now.Sub(use.there) > Gone || u.watched-use.last > Idle {
			delete(u.seen, name)
			forgot = true
		}
	}
	u.forget(func(w *waiter) bool { return !exists(w.name) })
	return u.AgeHeld(exists, now) || forgot
}

// Notes says where Envoy fetches more than is kept for it.
func (u *Used) Notes() []string {
	n := 0
	for _, w := range u.waiting {
		if _, held := u.held[w.name]; !held {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d clusters that Envoy fetched are not preloaded for it: %d of at most %d are, and one more every %s where there is room; somebody dials many Services once", n, len(u.seen), Most, Every)}
}
