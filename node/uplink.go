package node

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
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

// bootIDFile has another content after each boot.
const bootIDFile = "/proc/sys/kernel/random/boot_id"

// uplink measures for how long the cloud has been silent. An outage is recorded
// in a file while it lasts and until what is held after it was let go, so that
// it outlives a restart. The file is there only where an agent had heard of the
// cloud before the outage: it vouches for the last good state, which is of any
// age without it. Its last line is the boot that it was written in.
type uplink struct {
	path     string
	heard    time.Time // the newest sign of life, or when this process began
	met      bool      // this process has had one
	away     bool      // there was an outage, and no hold has begun for it yet
	back     bool      // it is over
	since    time.Time // when it began
	recorded bool      // somebody lived through its beginning
	rebooted bool      // that was before this boot

	boot    string // of now; empty where it cannot be read
	noted   bool   // the file is there
	failing bool   // it could not be written, or removed, and that was said
}

func newUplink(stateDir string, now time.Time) uplink {
	u := uplink{path: filepath.Join(stateDir, "outage"), heard: now}
	id, _ := os.ReadFile(bootIDFile)
	u.boot = strings.TrimSpace(string(id))
	noted, err := os.ReadFile(u.path)
	if !errors.Is(err, fs.ErrNotExist) {
		u.away, u.noted, u.recorded, u.since, u.heard = true, true, true, now, time.Time{} // any sign of life ends it
		_, boot, _ := strings.Cut(strings.TrimSpace(string(noted)), "\n")
		u.rebooted = u.boot == "" || boot != u.boot
	}
	return u
}

// record has an outage, or what is held after it, on disk, and nothing else.
// What fails is tried again with the next look.
func (l *loop) record() {
	u := &l.uplink
	holds := l.healing.hold != nil
	want := u.away && u.recorded || holds
	var err error
	switch {
	case want && !u.noted:
		err = atomicfile.Write(u.path, []byte(u.since.UTC().Format(time.RFC3339)+"\n"+u.boot+"\n"))
		u.noted = err == nil
	case !want && u.noted:
		if err = os.Remove(u.path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		u.noted = err != nil
	}
	if err != nil && !u.failing {
		l.log.Error("could not note the outage, or its end; a restart now would believe the cloud too early, or too late; trying again", obs.KeyErr, err)
	}
	u.failing = err != nil
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
		if contact.Sub(u.heard) >= outageAfter && !u.away {
			u.begin()
		}
		u.heard, u.back = contact, true
	}
	u.met = u.met || !contact.IsZero()
	switch {
	case u.away && u.back && l.live:
		l.heal(now)
	case !u.away && now.Sub(u.heard) >= outageAfter:
		l.log.Warn("the API server is silent; this node goes on with what it knows")
		u.begin()
		u.back = false
		l.publish()
	}
	l.record()
}

// begin notes that an outage has begun with the last sign of life.
func (u *uplink) begin() {
	u.away, u.since, u.recorded, u.rebooted = true, u.heard, u.met, false
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
