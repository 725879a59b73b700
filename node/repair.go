package node

import (
	"context"
	"time"

	"github.com/gridmesh/gridmesh/internal/obs"
)

// linked looks at the kernel, for something in it changed. Where nobody watches
// any more the pace goes on, and has it watched again.
func (l *loop) linked(ctx context.Context, open bool) {
	if open {
		l.disturbed()
		return
	}
	if l.links = nil; ctx.Err() == nil {
		l.unwatched()
	}
}

// disturbed looks at the kernel at once. Where something fails, which may last,
// what others change is put back all the same; but a look that fails may change
// something itself, and so there are only so many of them.
func (l *loop) disturbed() {
	if l.failing() && !l.eager.Allow(time.Now(), eagerBurst, eagerEvery) {
		return // the pace says when
	}
	l.refreshBridges()
	if l.repair(); l.failing() {
		l.pace.hurry()
	}
}

// paced looks at everything that nothing may have told of.
func (l *loop) paced() {
	l.refreshBridges()
	l.repair()
	l.pace.next(l.failing())
	l.admit()
	l.answerAgain()
	l.closeStale()
}

// repair puts back what others changed, and writes again what failed.
func (l *loop) repair() {
	was := l.broken
	due := was != nil || l.failure != nil || l.capture.Due()
	repaired, err := l.capture.Repair()
	l.broken = err
	switch {
	case err != nil:
		if was == nil || was.Error() != err.Error() {
			l.said.order.Say(l.log.Error, "could not put the capture rules in order; trying again", obs.KeyErr, err)
		}
		l.metrics.syncFailures.Inc()
	case repaired && due:
		l.said.anew.Say(l.log.Info, "capture rules were written anew: those in force were of a run before, or a write had failed")
	case repaired:
		l.said.repair.Say(l.log.Warn, l.cameBack())
		l.metrics.repairs.Inc()
	}
	l.setPods()
	l.noteIPs()
	if l.noteServers() {
		l.changed()
		if l.cidrs.refuses() { // maybe for one that is none any more
			l.rejudgeRanges()
		}
	}
	switch {
	case l.failure != nil:
		l.apply(l.snap)
	case (was == nil) != (l.broken == nil):
		l.publish()
	}
}

// cameBack is what a repair of others' changes brought: what was served before
// the first view is known only from the rules that were there.
func (l *loop) cameBack() string {
	if l.view == nil {
		return "capture rules or sysctls were changed by somebody else; the guard is back, what was served comes back with the first view"
	}
	return "capture rules or sysctls were changed by somebody else and are back"
}
