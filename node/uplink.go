package node

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
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

// uplink measures for how long the cloud has been silent. An outage is noted in
// a file while it lasts and until what is held after it was let go, so that it
// outlives a restart; the file is there or not, what it says is for people.
type uplink struct {
	path  string
	heard time.Time // the newest sign of life, or when this process began
	away  bool      // there was an outage, and no hold has begun for it yet
	back  bool      // it is over
	since time.Time // when it began
	noted bool      // the file is there
}

func newUplink(stateDir string, now time.Time) uplink {
	u := uplink{path: filepath.Join(stateDir, "outage"), heard: now}
	if _, err := os.Stat(u.path); err == nil {
		u.away, u.noted, u.since, u.heard = true, true, now, time.Time{} // any sign of life ends it
	}
	return u
}

// remember notes the outage on disk.
func (u *uplink) remember() error {
	if u.noted {
		return nil
	}
	err := atomicfile.Write(u.path, []byte(u.since.UTC().Format(time.RFC3339)+"\n"))
	u.noted = err == nil
	return err
}

// over forgets the outage.
func (u *uplink) over() error {
	if u.away || !u.noted {
		return nil // the next one has begun already
	}
	err := os.Remove(u.path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		u.noted = false
		return nil
	}
	return err
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
	if contact.After(u.heard) {
		if gap := contact.Sub(u.heard); gap >= outageAfter && !u.away {
			u.away, u.since = true, u.heard
		}
		u.heard, u.back = contact, true
	}
	switch {
	case u.away && u.back && l.live:
		l.heal(now)
	case !u.away && now.Sub(u.heard) >= outageAfter:
		l.log.Warn("the API server is silent; this node goes on with what it knows")
		u.away, u.back, u.since = true, false, u.heard
		l.note(u.remember())
		l.publish()
	}
}

// note tells of an outage that could not be noted, or its end.
func (l *loop) note(err error) {
	if err != nil {
		l.log.Error("could not note the outage; a restart now would believe the cloud too early, or too late", obs.KeyErr, err)
	}
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
