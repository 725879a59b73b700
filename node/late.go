package node

import (
	"net/netip"
	"time"

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
}

func (u *unread) any() bool { return u.state != nil || u.notes != nil }

// readDisk begins to read the state directory.
func (a *Agent) readDisk(b statedir.Notebook) unread {
	return unread{
		atomicfile.Ask(func() (*source.State, error) { return a.readState(a.cfg.statePath()) }),
		atomicfile.Ask(func() (notes, error) {
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
	u.state = nil
	return a.stateOf(read)
}

func (a *Agent) stateOf(read atomicfile.Answer[*source.State]) *source.State {
	if read.Err != nil {
		a.log.Error("starting without the last good state", obs.KeyErr, read.Err)
	}
	return read.Is
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
	if l.said.unread || !l.unread.any() || now.Sub(l.uplink.Started) <= statedir.Patience {
		return
	}
	l.said.unread = true
	l.log.Error("the disk of the state directory gives nothing that was kept there; traffic is not affected, but what a run before knew is missing", obs.KeyErr, statedir.ErrStalled)
	if l.unread.state != nil {
		l.dir.Took(statedir.KeptState, statedir.ErrStalled)
	}
	if l.unread.notes != nil {
		l.dir.Took(statedir.KeptNote, statedir.ErrStalled)
	}
}

// takeState takes a last good state that comes late. It is older than whatever
// came since, and only adds to it.
func (l *loop) takeState(read atomicfile.Answer[*source.State]) {
	l.unread.state = nil
	l.dir.Took(statedir.KeptState, nil)
	l.restored = l.stateOf(read)
	if l.restored == nil {
		l.holdLate() // gives it up
		return
	}
	l.log.Info("the disk gave the last good state", obs.KeyServices, l.restored.Snapshot.Services.Len())
	l.restoreUsed()
	switch {
	case l.holdLate():
		l.rejudge()
	case l.live:
		l.catalogAgain()
	default:
		l.knowPods(l.restored.PodCIDRs)
		l.serveRestored()
	}
}

// knowPods takes pod CIDRs from disk, where none are known.
func (l *loop) knowPods(list []netip.Prefix) {
	if _, known := l.podCIDRs.Get(); !known && l.parts.Cluster != nil && len(l.cfg.PodCIDRs) == 0 && len(list) > 0 {
		l.podCIDRs.Publish(list)
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
	l.healing.hold = h
	l.healing.wake(h.End())
	return true
}
