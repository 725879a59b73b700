package node

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/gridmesh/gridmesh/internal/obs"
)

const (
	// outageAfter is the silence of the cloud after which its word about this
	// unit may be stale. Kubernetes gives a node 40 to 50 s.
	outageAfter = 20 * time.Second
	// lookEvery is how often the silence is measured.
	lookEvery = time.Second
	// contactEvery is how old the last sign of life may be before one is asked
	// for: a quiet cluster sends something about once a minute.
	contactEvery = 10 * time.Second
	contactRetry = 2 * time.Second
)

// firstWord is how long a process that begins waits for the cloud's first word
// before it counts what the process before it did not hear, either.
const firstWord = 5 * time.Second

// uplink measures for how long the cloud has been silent. An outage is recorded
// on disk while it lasts and until what is held after it was let go, so that it
// outlives a restart; and so is when the cloud was last heard of. Both vouch for
// the last good state, which is of any age without.
type uplink struct {
	started     time.Time // of this process
	lastContact time.Time // the newest sign of life, or when this process began
	met         bool      // this process has had one, and a whole snapshot
	vouched     bool      // the one before had both just before it ended
	trusted     bool      // the state that this process found was vouched for
	away        bool      // there was an outage, and no hold has begun for it yet
	back        bool      // it is over
	since       time.Time // when it began
	recorded    bool      // somebody lived through its beginning
	rebooted    bool      // that was before this boot

	book   notebook
	booted bool      // the process that vouches ended before this boot
	before outage    // what the process before recorded, until a hold goes on with it
	known  time.Time // the newest contact of the processes before; zero where that is not known
}

// recall is what the processes before noted, as far as the disk says it soon. Of a
// disk that does not, nothing is known: it vouches for nothing, and a record of an
// outage that may be there goes with the first note.
func (a *Agent) recall() (uplink, note) {
	type notes struct {
		uplink
		onDisk note
	}
	now, read := time.Now(), a.dir.notes
	if read == nil {
		read = newUplink
	}
	got, err := soon(func() (notes, error) {
		u, onDisk := read(a.cfg.StateDir, now)
		return notes{u, onDisk}, nil
	}, nil)
	if err == nil {
		return got.uplink, got.onDisk
	}
	a.log.Error("starting without what was noted of an outage", obs.KeyErr, err)
	a.took(keptNote, err)
	late := time.Now()
	return uplink{started: late, lastContact: late, book: notebook{a.cfg.StateDir, bootID()}}, note{phase: phaseCut}
}

func newUplink(stateDir string, now time.Time) (u uplink, onDisk note) {
	u = uplink{started: now, lastContact: now, book: notebook{stateDir, bootID()}}
	before, there := u.book.outage()
	at, boot := u.book.contact()
	u.known = newest(now, at, before.LastContact)
	if there {
		u.away, u.recorded, u.before, u.since, u.lastContact = true, !before.Stale, before, before.Since, time.Time{} // any sign of life ends it
		u.trusted = u.recorded
		u.rebooted = u.otherBoot(before.boot)
		if u.since.IsZero() {
			u.since = now
		}
		return u, note{phase: phaseCut, stale: before.Stale}
	}
	if age := now.Sub(at); age >= 0 && age < vouchFor {
		u.lastContact, u.vouched, u.trusted, u.booted = at, true, true, u.otherBoot(boot)
	}
	return u, note{}
}

// newest is the last of some times, without those that are still to come: a clock
// that was wrong when they were noted says nothing about a silence.
func newest(now time.Time, times ...time.Time) (last time.Time) {
	for _, at := range times {
		if at.After(last) && !at.After(now) {
			last = at
		}
	}
	return last
}

func (u *uplink) otherBoot(boot string) bool { return u.book.boot == "" || boot != u.book.boot }

// silent reports whether the cloud was silent for long, until a time.
func (u *uplink) silent(until time.Time) bool {
	return until.Sub(u.lastContact) >= outageAfter && until.Sub(u.started) >= firstWord
}

// lastContact is when the API server last answered anything.
func (a *Agent) lastContact() time.Time {
	at := a.parts.Source.LastContact()
	if asked := a.answered.Load(); asked != nil && asked.After(at) {
		return *asked
	}
	return at
}

// look measures the silence, and begins a hold when it ends: with the source's
// first snapshot, where this process has none yet.
func (l *loop) look() {
	if l.parts.Cluster == nil {
		return // there is no cloud
	}
	now, contact := time.Now(), l.lastContact()
	u := &l.uplink
	if contact.After(u.lastContact) {
		if !u.away && u.silent(contact) {
			u.begin()
		}
		u.lastContact, u.back = contact, true
	}
	u.met = u.met || l.live && !contact.IsZero()
	switch {
	case u.away && u.back && l.live:
		l.heal(now)
	case !u.away && u.silent(now):
		l.log.Warn("the API server is silent; this node goes on with what it knows")
		u.begin()
		u.back = false
		l.publish()
	}
	l.record()
}

// begin notes that an outage has begun with the last sign of life.
func (u *uplink) begin() {
	u.away, u.since, u.recorded, u.rebooted = true, u.lastContact, u.met || u.vouched, !u.met && u.booted
}

// keepContact asks the API server for a sign of life where it sends none by
// itself, so that a quiet cluster is no outage.
func (a *Agent) keepContact(ctx context.Context) error {
	began := time.Now()
	for wait := contactEvery; pause(ctx, wait); {
		last := a.lastContact()
		if last.Before(began) {
			last = began
		}
		if wait = contactEvery - time.Since(last); wait > 0 {
			continue
		}
		if err := a.parts.Cluster.Reachable(ctx); err != nil {
			wait = jitter(contactRetry)
			continue
		}
		now := time.Now()
		a.answered.Store(&now)
		wait = contactEvery
	}
	return nil
}

// pause waits, and reports false where ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// jitter is d and up to a quarter more, so that many nodes do not ask at once.
func jitter(d time.Duration) time.Duration { return d + rand.N(d/4) }
