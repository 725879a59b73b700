package grid

import (
	"time"

	"github.com/gridmesh/gridmesh/grid/plan"
)

const (
	// peaceAfter is how long a child stays as it was written until it is
	// forgotten that it did not before.
	peaceAfter = 5 * time.Minute
	// disputeFrom is the wait from which on it is no hand's mistake any more that
	// a child is to be written again: somebody else wants it otherwise.
	disputeFrom = 4 * time.Second
)

// dispute is what is remembered of the writes to one child that went well.
// Where the same is to be written again and again, a webhook or another
// controller undoes it; neither side of such a fight ends it, so every answer
// waits longer than the one before. A new content of the child is not held up
// by a dispute about the old one.
type dispute struct {
	retry
	hash string // of what was written last
	over string // what the others change (plan.Step.Over); the first that was seen
	// since and last are when it was written first, and last.
	since, last time.Time
}

// about reports whether a step writes what was written before. One that only
// marks the child has no content, and goes on with what there is.
func (d dispute) about(s plan.Step) bool { return s.Hash() == "" || s.Hash() == d.hash }

// open reports whether it is one by now.
func (d dispute) open() bool { return d.over != "" && d.wait >= disputeFrom }

// wait is how long a step has to wait, for failures or for a dispute.
func (w *work) wait(s plan.Step, now time.Time) time.Duration {
	wait := w.failing[s.Unit].after.Sub(now)
	if d, known := w.disputes[s.Name]; known && d.about(s) {
		wait = max(wait, d.after.Sub(now))
	}
	return wait
}

// succeeded notes a write that went well: the first of a content costs no wait,
// nor does the first that follows it, as what a hand changed comes back at once.
func (w *work) succeeded(s plan.Step, now time.Time) {
	if s.Action == plan.Remove || s.Action == plan.Release {
		delete(w.disputes, s.Name)
		return
	}
	d, known := w.disputes[s.Name]
	if !known || !d.about(s) {
		w.disputes[s.Name] = dispute{hash: s.Hash(), since: now, last: now}
		return
	}
	if d.retry, d.last = d.next(now), now; d.over == "" {
		d.over = s.Over
	}
	if d.hash == "" {
		d.hash = s.Hash()
	}
	w.disputes[s.Name] = d
}

// disputed forgets the disputes that are over, and returns those that are not, by
// child.
func (w *work) disputed(now time.Time) map[string]plan.Dispute {
	list := map[string]plan.Dispute{}
	for name, d := range w.disputes {
		switch {
		case now.Sub(d.last) >= peaceAfter:
			delete(w.disputes, name)
		case d.open():
			list[name] = plan.Dispute{Over: d.over, Since: d.since}
		}
	}
	return list
}

// answers are the children of steps that go on with a dispute.
func (w *work) answers(steps []plan.Step) map[string]bool {
	list := map[string]bool{}
	for _, s := range steps {
		if d := w.disputes[s.Name]; d.open() && d.about(s) {
			list[s.Name] = true
		}
	}
	return list
}
