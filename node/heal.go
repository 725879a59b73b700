package node

import (
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/node/hold"
	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/topology"
)

// healing is what is held after an outage.
type healing struct {
	hold  *hold.Hold  // nil where nothing is
	late  *hold.Start // of one that waits for the last good state; nil for none
	since time.Time   // when the outage before it began
	// unheard are the watches that its clock waits for, since a contact; zero for none.
	unheard []string
	waits   time.Time
	held    hold.Held // of the last judgement
	next    time.Time // when something is let go if nothing happens before
	timer   *time.Timer
}

// due is filled when what is held is to be judged again.
func (h *healing) due() <-chan time.Time {
	if h.timer == nil {
		return nil
	}
	return h.timer.C
}

func (h *healing) wait(d time.Duration) {
	if h.timer == nil {
		h.timer = time.NewTimer(d)
	} else {
		h.timer.Reset(d)
	}
}

func (h *healing) stop() {
	if h.timer != nil {
		h.timer.Stop()
	}
}

// lookEvery is how often it is measured for how long the cloud is silent.
const lookEvery = time.Second

// look measures for how long the cloud is silent, and begins a hold when it
// is back: with the source's first snapshot, where this process has none yet.
func (l *loop) look() {
	contact := l.lastContact() // before the clocks: of one that comes after a sleep they are to tell
	was, at := l.readClocks()
	if l.parts.Cluster == nil {
		return // there is no cloud
	}
	l.noteContact(contact, was, at)
	u, now := &l.uplink, at.Now
	u.Met = u.Met || l.live && !contact.IsZero()
	l.clock()
	switch {
	case u.Away && u.Back && l.live:
		l.heal(u.LastContact, false)
	case !u.Away && u.Silent(now):
		l.log.Warn("the API server is silent; this node goes on with what it knows")
		u.Begin()
		u.Back = false
		l.publish()
	}
	l.record()
}

// heal begins to hold, for the cloud answers again, at a time, after an outage.
// Where something is held already that is part of what is in force, and so it stays.
// What is in force is not what was before where the cloud was believed meanwhile.
func (l *loop) heal(at time.Time, believed bool) {
	u, h := &l.uplink, &l.healing
	start := hold.Start{Base: l.snap, Node: l.cfg.Node, Began: at, Past: l.past(at)}
	h.hold, h.late, h.since = nil, nil, u.Since
	if believed || l.snap == nil || l.snap.Partial { // from disk: nobody here has seen how it went on
		start.Base, start.Booted = nil, u.Rebooted
		if u.Recorded { // else it may be of any age
			h.late = &start
		}
	}
	u.End()
	l.reports.begin()
	if h.late == nil && start.Base != nil {
		l.hold(start)
	}
	l.holdLate()    // where the last good state is there
	l.record()      // until the end of the hold; a restart goes on with it
	l.wakeOwnNode() // which may be another by now
}

// past is what a record of now, or the next hold, has to know of what is held.
func (l *loop) past(contact time.Time) hold.Past {
	switch h, u := l.healing.hold, &l.uplink; {
	case h == nil:
		return u.Before.PastAt(contact)
	case u.Away:
		return h.Past(u.Since).Interrupted()
	default:
		return h.Past(contact)
	}
}

// wake has what is held judged again at a time of the cloud.
func (h *healing) wake(at time.Time) {
	h.next = at
	h.wait(max(0, time.Until(at)))
}

// judge returns what of a snapshot of the source is to be believed. The time
// of a hold is that of the last contact: while the cloud is silent nothing is let go,
// nor, for nobody has reported, while it does not speak about everything (clock).
func (l *loop) judge(snap *topology.Snapshot) *topology.Snapshot {
	h := &l.healing
	if h.hold == nil {
		return snap
	}
	l.clock()
	now := l.uplink.LastContact
	out, held := h.hold.Apply(snap, now)
	l.showHeld(held)
	if !now.Before(h.hold.End()) {
		h.hold, h.unheard, h.waits = nil, nil, time.Time{} // and held is empty
		h.stop()
		l.record()
		l.log.Info("nothing is held any more; the API server is believed")
		return out
	}
	next := h.hold.End()
	if !held.Next.IsZero() {
		next = held.Next
	}
	h.wake(next)
	if len(h.unheard) > 0 {
		h.wait(max(lookEvery, time.Until(next)))
	}
	return out
}

// judgeAgain acts where time made a difference.
func (l *loop) judgeAgain() {
	l.look() // for the cloud's last word
	if l.healing.hold == nil {
		return
	}
	if l.uplink.LastContact.Before(l.healing.next) {
		l.healing.wait(lookEvery)
		return
	}
	l.rejudge()
}

// rejudge acts where time or a node's report made a difference.
func (l *loop) rejudge() {
	if snap := l.judge(l.raw); snap != l.snap {
		l.apply(snap)
	} else {
		l.countProgrammed()
		l.publish()
	}
}

// takeReports notes which nodes have reported to the cloud.
func (l *loop) takeReports() {
	nodes := l.reports.take()
	if l.healing.hold == nil || len(nodes) == 0 {
		return
	}
	for _, node := range nodes {
		l.healing.hold.Reported(node, time.Now())
	}
	l.rejudge()
}

// wantReports has nodes asked for of which nobody but their report says how they are: those
// that something is held of, and those that count as dead.
func (l *loop) wantReports() {
	h := &l.healing
	if h.hold == nil {
		l.reports.want(nil, 0)
		return
	}
	list := slices.Concat(h.held.Unreported, slices.DeleteFunc(slices.Clone(l.dead), h.hold.HasReported))
	slices.Sort(list)
	l.reports.want(slices.Compact(list), h.hold.UnitSize())
}

// showHeld tells what is held, and whom to ask for a report.
func (l *loop) showHeld(held hold.Held) {
	was := l.healing.held
	l.healing.held = held
	l.metrics.held.Set(float64(held.Endpoints))
	l.wantReports()
	if held.Endpoints == was.Endpoints && slices.Equal(held.Nodes, was.Nodes) {
		return
	}
	l.recorder.Dirty = true
	l.log.Info("endpoints are held as they were before the outage", obs.KeyEndpoints, held.Endpoints, obs.KeyWhich, report.Few(held.Nodes))
}
