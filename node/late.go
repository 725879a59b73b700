package node

import (
	"errors"
	"net/netip"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/node/hold"
	"github.com/gridmesh/gridmesh/node/outage"
	"github.com/gridmesh/gridmesh/node/statedir"
	"github.com/gridmesh/gridmesh/source"
)

// notes are those of the processes before.
type notes struct {
	outage.Noted
	onDisk outage.Note
}

// unread is what of the state directory was not read yet; nil where it was. A disk
// that hangs keeps no node waiting: what comes late comes to the loop.
type unread struct {
	state *atomicfile.Asked[*source.State]
	notes *atomicfile.Asked[notes]

	failed, again time.Time // since when the state cannot be read; when it is tried again. Zero: neither
}

// stateLate reports whether the state is still to come. One that cannot be read is
// none for as long as that is so.
func (u *unread) stateLate() bool { return u.state != nil && u.failed.IsZero() }

// readDisk begins to read the state directory.
func (a *Agent) readDisk(b statedir.Notebook) unread {
	return unread{
		state: atomicfile.Ask(func() (*source.State, error) { return a.readState(a.cfg.statePath()) }),
		notes: atomicfile.Ask(func() (notes, error) {
			noted, onDisk := a.readNotes(b)
			return notes{noted, onDisk}, nil
		}),
	}
}

// soonState is the last good state where the disk gives it soon; nil for none.
func (a *Agent) soonState(u *unread) *source.State {
	read, ok := u.state.Within(a.patience.Left())
	if !ok {
		a.log.Warn("the disk is slow to give the last good state; starting without it until it does")
		return nil
	}
	return a.stateOf(u, read)
}

// stateOf is what was read; nil for none, or none yet.
func (a *Agent) stateOf(u *unread, read atomicfile.Answer[*source.State]) *source.State {
	if errors.Is(read.Err, source.ErrUnread) {
		if u.failed.IsZero() {
			a.log.Error("could not read the last good state; starting without it, and trying again", obs.KeyErr, read.Err)
		}
		u.failedAt(time.Now())
		a.dir.Took(statedir.KeptState, read.Err)
		return nil
	}
	u.state = nil
	a.dir.Took(statedir.KeptState, nil)
	switch {
	case errors.Is(read.Err, source.ErrOther): // of a machine that was copied, a node that was renamed, or a mistake
		a.log.Warn("starting without a last good state: the one that was there is another node's; see that --node-name is right, and that no other node's agent has this --state-dir", obs.KeyErr, read.Err)
	case read.Err != nil:
		a.log.Error("starting without the last good state", obs.KeyErr, read.Err)
	}
	return read.Is
}

// giveUpAfter is how long it is tried to read a last good state where a newer one
// is to take its place. Then it is set aside: a disk that is bad at one place takes
// another file. Where none is to, it may be all that a node knows, and is tried on.
const giveUpAfter = 10 * time.Minute

// failedAt notes that the state could not be read, and has it tried again: after a
// second first, every minute at last.
func (u *unread) failedAt(now time.Time) {
	if u.failed.IsZero() {
		u.failed = now
	}
	u.again = now.Add(min(max(now.Sub(u.failed), time.Second), time.Minute))
}

// readAgain begins to read the state again, where it is time for that.
func (l *loop) readAgain(now time.Time) {
	u := &l.unread
	if u.again.IsZero() || now.Before(u.again) {
		return
	}
	u.again = time.Time{}
	read, path, dir := l.readState, l.cfg.statePath(), l.dir
	last := now.Sub(u.failed) >= giveUpAfter && l.live && l.saver.Pending()
	u.state = atomicfile.Ask(func() (*source.State, error) {
		st, err := read(path)
		if !last || !errors.Is(err, source.ErrUnread) || dir.Others() {
			return st, err
		}
		aside, rename := atomicfile.SetAside(path)
		if rename != nil {
			return nil, errors.Join(err, rename) // and so on
		}
		return nil, errors.New(err.Error() + "; it was set aside as " + aside) // which is not tried again
	})
}

// soonNotes is what the processes before noted, where the disk gives it soon.
func (a *Agent) soonNotes(u *unread) notes {
	read, ok := u.notes.Within(a.patience.Left())
	if !ok {
		a.log.Warn("the disk is slow to give what was noted of an outage; starting without it until it does")
		return notes{}
	}
	u.notes = nil
	return read.Is
}

// stalled tells of what the disk has not given for long.
func (l *loop) stalled(now time.Time) {
	state := l.unread.stateLate()
	if l.said.unread || !state && l.unread.notes == nil || now.Sub(l.uplink.Started) <= statedir.Patience {
		return
	}
	l.said.unread = true
	l.log.Error("the disk of the state directory gives nothing that was kept there; traffic is not affected, but what a run before knew is missing", obs.KeyErr, atomicfile.ErrLate)
	if state {
		l.dir.Took(statedir.KeptState, atomicfile.ErrLate)
	}
	if l.unread.notes != nil {
		l.dir.Took(statedir.KeptNote, atomicfile.ErrLate)
	}
}

// takeState takes a last good state that comes late. It is older than whatever
// came since, and only adds to it.
func (l *loop) takeState(read atomicfile.Answer[*source.State]) {
	if l.restored = l.stateOf(&l.unread, read); l.unread.state != nil {
		return // it is tried again
	}
	if l.restored != nil {
		l.useLate()
	} else {
		l.holdLate() // gives it up
	}
	if l.emptied {
		l.gather() // for it is known by now what was there before
	}
}

// useLate serves and holds by a last good state that came late.
func (l *loop) useLate() {
	l.log.Info("the disk gave the last good state", obs.KeyServices, l.restored.Snapshot.Services.Len())
	l.capture.RememberIPs(capture.IPs{Said: l.restored.NodeIPs, Homes: l.restored.Homes})
	if len(l.nodeSaid) == 0 {
		l.nodeSaid = l.restored.NodeIPs
	}
	l.servers = newestServers(serversKept(l.restored), l.servers)
	l.restoreUsed()
	l.takePolicies()
	l.rejudgeRanges() // for it is known by now what was guarded, and whom a run before heard
	switch holds := l.holdLate(); {
	case holds:
		l.rejudge()
		l.catalogAgain() // where it holds nothing, nothing else tells Envoy of what was used
	case l.live:
		l.catalogAgain()
	default:
		l.knowPods(l.restored.PodCIDRs)
		l.serveRestored()
	}
}

// knowPods takes pod CIDRs from disk, where none are known: the own Node's, which may
// come at any moment, are newer.
func (l *loop) knowPods(list []netip.Prefix) {
	if l.asksPods() && len(list) > 0 {
		l.podCIDRs.PublishFirst(list)
	}
}

// takeNotes takes notes that come late. Where the cloud was believed before they
// were there, what it says is judged now.
func (l *loop) takeNotes(read atomicfile.Answer[notes]) {
	l.unread.notes = nil
	l.dir.Took(statedir.KeptNote, nil)
	l.log.Info("the disk gave what was noted of an outage")
	l.recorder.OnDisk = read.Is.onDisk
	ended, missed := l.uplink.Learn(read.Is.Noted)
	known := l.uplink.Known
	l.known.Store(&known)
	if l.lastContact().IsZero() {
		heard := outage.Heard{}.Next(l.moment(known), l.begun)
		l.heard.Store(&heard)
	}
	if missed && l.live {
		l.heal(ended, true)
		if l.healing.hold != nil {
			l.rejudge()
		}
	}
	l.look()
}

// holdLate begins the hold that waits for the last good state, once that was read,
// and reports whether there is one.
func (l *loop) holdLate() bool {
	start := l.healing.late
	if start == nil || l.unread.state != nil {
		return false
	}
	if l.healing.late = nil; l.restored == nil {
		return false
	}
	start.Base = l.restored.Snapshot
	return l.hold(*start)
}

// hold begins to hold, unless it would be over by now.
func (l *loop) hold(start hold.Start) bool {
	h := hold.New(start)
	if !l.uplink.LastContact.Before(h.End()) {
		return false
	}
	l.log.Info("the API server is back after an outage; what it says against this unit's endpoints is held until their nodes have reported",
		obs.KeyAway, time.Since(l.healing.since).Round(time.Second))
	l.healing.hold, l.healing.waits = h, time.Time{}
	l.healing.wake(h.End())
	return true
}
