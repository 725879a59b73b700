package grid

import (
	"strings"
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

// subject is what writes are about: the content of a child, or marks on it that say
// since when its unit is gone. A unit that flaps is marked often, and has no part in
// how long its content waits.
type subject struct {
	child string
	marks bool
}

func subjectOf(s plan.Step) subject { return subject{s.Name, s.Hash() == ""} }

// attempt is what is tried (plan.Step.Key). Another content does not wait for what failed
// with one.
type attempt struct{ key, hash string }

func attemptOf(s plan.Step) attempt { return attempt{s.Key(), s.Hash()} }

// dispute is what is remembered of the writes to one subject that went well.
// Where the same is to be written again and again, a webhook or another
// controller undoes it; neither side of such a fight ends it, so every answer
// waits longer than the one before. A new content of the child is not held up
// by a dispute about the old one.
type dispute struct {
	retry
	hash string // of what was written last; "" for marks
	over string // what the others change (plan.Step.Over); the first that was seen
	// since and last are when it was written first, and last.
	since, last time.Time
}

// open reports whether it is one by now. Marks are none: they may be in vain, and
// say nothing of who is to blame.
func (d dispute) open() bool { return d.over != "" && d.wait >= disputeFrom }

// dispute is that about what a step writes, if the same was written before.
func (w *work) dispute(s plan.Step) (d dispute, known bool) {
	d, known = w.disputes[subjectOf(s)]
	return d, known && d.hash == s.Hash()
}

// wait is how long a step has to wait, for failures or for a dispute.
func (w *work) wait(s plan.Step, now time.Time) time.Duration {
	wait := w.failing[attemptOf(s)].after.Sub(now)
	if d, known := w.dispute(s); known {
		wait = max(wait, d.after.Sub(now))
	}
	return wait
}

// waiting are the children whose removal would wait now (wait).
func (w *work) waiting(now time.Time) map[string]bool {
	list := map[string]bool{}
	for about, d := range w.disputes {
		if about.marks && now.Before(d.after) {
			list[about.child] = true
		}
	}
	for a, r := range w.failing {
		if _, child, leaving := strings.Cut(a.key, "/"); leaving && now.Before(r.after) {
			list[child] = true
		}
	}
	return list
}

// succeeded notes a write that went well: the first of a content costs no wait,
// nor does the first that follows it, as what a hand changed comes back at once.
func (w *work) succeeded(s plan.Step, now time.Time) {
	if s.Action == plan.Remove || s.Action == plan.Release {
		delete(w.disputes, subject{s.Name, false})
		delete(w.disputes, subject{s.Name, true})
		return
	}
	d, known := w.dispute(s)
	if !known {
		w.disputes[subjectOf(s)] = dispute{hash: s.Hash(), since: now, last: now}
		return
	}
	if d.retry, d.last = d.next(now), now; d.over == "" && s.Hash() != "" {
		d.over = s.Over
	}
	w.disputes[subjectOf(s)] = d
}

// disputed forgets the disputes that are over, and returns those that are not, by
// child.
func (w *work) disputed(now time.Time) map[string]plan.Dispute {
	list := map[string]plan.Dispute{}
	for about, d := range w.disputes {
		switch {
		case now.Sub(d.last) >= peaceAfter:
			delete(w.disputes, about)
		case d.open():
			list[about.child] = plan.Dispute{Over: d.over, Since: d.since}
		}
	}
	return list
}

// answers are the children of steps that go on with a dispute.
func (w *work) answers(steps []plan.Step) map[string]bool {
	list := map[string]bool{}
	for _, s := range steps {
		if d, known := w.dispute(s); known && d.open() {
			list[s.Name] = true
		}
	}
	return list
}
