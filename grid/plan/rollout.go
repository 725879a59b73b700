package plan

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiv1 "github.com/gridmesh/gridmesh/api/v1"
)

// state is what a grid remembers from one plan to the next, in its status.
type state struct {
	rollout *apiv1.RolloutStatus
	removed *metav1.Time
	seen    time.Time // the last removal of this process; zero for none
	stopped string    // why no wave begins, or ""
	paused  bool
	pending int // units whose turn comes later
	before  before
	lacks
}

func (g *tracked) state(now time.Time) state {
	s := state{seen: g.removedAt}
	if g.workload != nil {
		s.rollout, s.removed, s.gone = g.workload.Rollout.DeepCopy(), believed(g.workload.LastRemoval, now), g.workload.Gone
	}
	return s
}

// sinceRemoval is how long ago the last removal was, by the status and by what
// was done here: the first counts by a wall clock, which may be set.
func (s *state) sinceRemoval(now time.Time) time.Duration {
	ago := now.Sub(s.seen)
	if s.removed != nil {
		ago = min(ago, now.Sub(s.removed.Time))
	}
	return ago
}

// holdBack holds back what is not at its turn. What every wave is follows from
// the children alone; the state only says since when.
func (g *tracked) holdBack(p *Plan, s *state, now time.Time) {
	r := g.waves
	if r == nil {
		s.rollout = nil
		return
	}
	if s.holds || len(p.Steps) == 0 {
		return // no unit says anything: what was so stays
	}
	if s.rollout != nil && s.rollout.Revision != g.revision {
		s.rollout = g.nextRollout(p, s.rollout, now)
	}
	if s.rollout != nil && s.rollout.Order != r.order {
		s.rollout.Order, s.rollout.Through = r.order, ""
	}
	f := g.front(p, s, now)
	f.away = s.before.waits
	if s.rollout == nil {
		if len(f.waiting)+len(f.failed) == 0 {
			return // all is as it is to be, and was before
		}
		s.rollout = &apiv1.RolloutStatus{Revision: g.revision, Order: r.order}
	}
	g.noteFailed(p, s.rollout, &f)
	if !s.before.waits || s.rollout.StoppedRevision == g.revision {
		s.rollout.StoppedRevision = "" // unless it stops again now
	}
	if len(f.waiting) == 0 && !underWay(s.rollout) {
		f.forget(s.rollout)
		return
	}
	s.paused = r.paused && len(f.waiting) > 0
	slices.SortStableFunc(f.waiting, func(a, b int) int { return r.compare(p.Steps[a].Unit, p.Steps[b].Unit) })
	n := len(f.waiting)
	f.waiting = g.deferDark(p, f.waiting)
	f.away = f.away || len(f.waiting) < n
	s.pending = len(f.waiting)
	g.nextWave(p, s, f, now)
}

// nextRollout is the rollout of another revision than before: what stays of the last wave is
// waited for as before, and who failed and is to have the same all the same has failed. Nil
// where nothing of that is.
func (g *tracked) nextRollout(p *Plan, was *apiv1.RolloutStatus, now time.Time) *apiv1.RolloutStatus {
	next := &apiv1.RolloutStatus{Revision: g.revision, Order: was.Order, Failed: g.failedStill(p, was), StoppedRevision: was.StoppedRevision}
	next.FailedUnits = int64(len(next.Failed)) + nameless(was)
	stays := slices.ContainsFunc(p.Steps, func(step Step) bool { return !step.changed && inWave(was, step, now) })
	if stays {
		next.WaitingSince, next.ReadySince = was.WaitingSince, was.ReadySince
	}
	if !stays && next.FailedUnits == 0 && next.StoppedRevision == "" {
		return nil
	}
	return next
}

// underWay reports whether a wave has begun and is not ready.
func underWay(r *apiv1.RolloutStatus) bool {
	return r != nil && r.WaitingSince != nil && r.ReadySince == nil
}

// forget ends the last wave, where it is ready and nobody waits for the next: who is away
// waits for the pause, too.
func (f *front) forget(r *apiv1.RolloutStatus) {
	if !underWay(r) && !f.away {
		r.WaitingSince, r.ReadySince = nil, nil
	}
}

// inWave reports whether a unit was applied since the last wave began, which is at the
// next whole second; stamps have the one before. A new revision begins another rollout
// only where it changes all of those.
func inWave(r *apiv1.RolloutStatus, s Step, now time.Time) bool {
	if r.WaitingSince == nil || s.appliedAt.After(now.Add(time.Second)) && !r.WaitingSince.After(now.Add(time.Second)) { // by a clock that was set back since
		return false
	}
	return !s.appliedAt.Before(r.WaitingSince.Add(-time.Second))
}

// again is how many units of the last wave are first in turn, for a new revision changed
// them, and others of it not: they need not wait for what those soak for.
func (g *tracked) again(p *Plan, r *apiv1.RolloutStatus, turn []int, now time.Time) (n int) {
	for n < len(turn) && inWave(r, p.Steps[turn[n]], now) {
		n++
	}
	return n
}

// reached reports whether a rollout has come to the turn of a unit.
func (w *waves) reached(r *apiv1.RolloutStatus, unit string) bool {
	return r != nil && r.Through != "" && w.compare(unit, r.Through) <= 0
}

func (g *tracked) front(p *Plan, s *state, now time.Time) (f front) {
	f.lost = g.lost(p, s.rollout)
	for i := range p.Steps {
		step := &p.Steps[i]
		if !step.Writes() && !step.ending {
			delete(g.failures, step.Key()) // of what is no longer to be written; the next one begins then
		}
		failure, begun := g.failure(*step)
		step.stuck = failedBefore(s.rollout, step.Unit) && !step.Updated
		step.early = step.Action == Create && s.before.due && !step.stuck && (step.Dark || !g.waves.reached(s.rollout, step.Unit))
		switch {
		case step.early, step.changed && !begun && !step.stuck:
			f.waiting = append(f.waiting, i)
			continue
		case begun && failure.Final && (step.desired != nil || step.ending), step.stuck && (step.changed || step.Dark || step.Action == Refuse):
			f.failed = append(f.failed, i)
			continue
		case step.Updated, step.Action == Refuse:
			continue
		case step.Dark:
			f.dark++
			continue
		}
		since := g.begun(step, now)
		if !since.IsZero() && now.Sub(since) >= g.waves.deadline {
			f.failed = append(f.failed, i)
			continue
		}
		if f.busy = append(f.busy, step.Unit); step.stuck {
			f.anew = append(f.anew, step.Unit)
		}
		if !since.IsZero() {
			p.requeue(since.Add(g.waves.deadline).Sub(now))
		}
	}
	return f
}

// begun is since when a unit has been able to become ready: since the change
// reached it, or, where that was dark then, since a node was ready. That is by
// the clock of the node, which is not believed where it is far ahead.
//
// A child that is to be written now is so since the write fails, or since others
// undo it: when it was written last does not matter, for that is each time anew.
// Nor does it matter for a unit that failed before that it was dark since. Zero is now.
func (g *tracked) begun(s *Step, now time.Time) time.Time {
	var since time.Time
	if s.desired == nil {
		since = g.reached(s, now)
	}
	if f, failing := g.failure(*s); failing && s.desired != nil {
		since = earlier(since, f.Since)
	}
	if d, disputed := g.disputed[s.Name]; disputed {
		since = earlier(since, d.Since)
	}
	if since.IsZero() || s.members == nil || s.stuck {
		return since
	}
	lit := s.members.lit()
	if lit.Sub(now) >= g.waves.deadline {
		return since
	}
	if c := g.live(s.Unit); c != nil && !lit.IsZero() {
		lit = c.lit.of(lit, now)
	}
	return later(since, lit)
}

// reached is when the change reached a unit. Where its child does not say, or says
// that this is yet to come, by a clock that was wrong, it is when that was first seen.
func (g *tracked) reached(s *Step, now time.Time) time.Time {
	c := g.live(s.Unit)
	switch {
	case c == nil:
		return s.appliedAt
	case !s.appliedAt.IsZero() && (!s.appliedAt.After(now) || c.applied.stamp.Equal(s.appliedAt)):
		return c.applied.of(s.appliedAt, now)
	}
	if c.undated.IsZero() {
		c.undated = now
	}
	return c.undated
}

// deferDark takes units without a ready node out of the order: they catch up.
func (g *tracked) deferDark(p *Plan, turn []int) []int {
	return slices.DeleteFunc(turn, func(i int) bool {
		if p.Steps[i].Dark {
			p.Steps[i].wait("no node of the unit is ready; it catches up when one is")
		}
		return p.Steps[i].Dark
	})
}

// nextWave decides whether the next wave begins now.
func (g *tracked) nextWave(p *Plan, s *state, f front, now time.Time) {
	r, at := g.waves, wholeSecond(now)
	s.rollout.WaitingSince, s.rollout.ReadySince = g.waited.believed(s.rollout.WaitingSince, now), g.soaked.believed(s.rollout.ReadySince, now)
	why := ""
	switch {
	case f.over(r):
		why = g.overdue(p, f)
		s.stopped, s.rollout.StoppedRevision = why, g.revision
	case len(f.busy) > 0:
		why = fmt.Sprintf("unit %s is not ready yet", Short(f.busy))
	case underWay(s.rollout):
		took := now.Sub(g.waited.of(s.rollout.WaitingSince.Time, now)).Round(time.Second)
		p.Events = append(p.Events, Event{Reason: "WaveReady", Message: fmt.Sprintf("the wave is ready %s after it began; %d units wait for theirs", took, len(f.waiting))})
		s.rollout.ReadySince = &at
		p.StatusFirst = true
	}
	if len(f.waiting) == 0 {
		f.forget(s.rollout)
		return
	}
	if why == "" && len(s.never) > 0 { // who mistypes the pilot does not mean all others
		why = OrderField + " " + g.unitsOfNobody(s.never)
		s.stopped = why
	}
	most, began := r.size(len(p.Steps)), &at
	if why == "" && s.rollout.ReadySince != nil {
		if left := r.pause - now.Sub(g.soaked.of(s.rollout.ReadySince.Time, now)); left > 0 {
			most, began = min(most, g.again(p, s.rollout, f.waiting, now)), s.rollout.WaitingSince
			if most == 0 {
				why = "the next wave begins " + atTime(now.Add(left))
				p.requeue(left)
			}
		}
	}
	if r.paused {
		why = "the rollout is paused"
	}
	first := 0
	if why == "" {
		first = g.beginWave(p, s, f.waiting, most, began)
		why = "after the wave that goes now"
	}
	g.announce(p, f.waiting[first:], why)
}

// beginWave lets a wave go, of so many units at most, that began now or, where it goes
// again, before; and returns its size.
func (g *tracked) beginWave(p *Plan, s *state, turn []int, most int, began *metav1.Time) int {
	n := g.waveSize(p, turn, most)
	units := make([]string, n)
	for i, step := range turn[:n] {
		units[i], p.Steps[step].early = p.Steps[step].Unit, false
	}
	s.rollout.WaitingSince, s.rollout.ReadySince = began, nil
	if last := units[n-1]; !g.waves.reached(s.rollout, last) {
		s.rollout.Through = last
	}
	s.pending -= n
	p.StatusFirst = true
	p.Events = append(p.Events, Event{Reason: "WaveBegins", Message: fmt.Sprintf("the change goes to %d of the %d units that wait for it: %s", n, len(turn), Short(units))})
	return n
}

// waveSize is how many of the units in turn make a wave: units of the order and
// others do not mix.
func (g *tracked) waveSize(p *Plan, turn []int, size int) int {
	n := min(size, len(turn))
	_, ordered := g.waves.place[p.Steps[turn[0]].Unit]
	for i, step := range turn[:n] {
		if _, also := g.waves.place[p.Steps[step].Unit]; also != ordered {
			return i
		}
	}
	return n
}

// announce tells the units that wait which wave they are in, counted from now.
func (g *tracked) announce(p *Plan, turn []int, why string) {
	size := g.waves.size(len(p.Steps))
	for wave := 1; len(turn) > 0; wave++ {
		n := g.waveSize(p, turn, size)
		text := fmt.Sprintf("in %d waves: %s", wave, why)
		if wave == 1 {
			text = "in the next wave: " + why
		}
		for _, i := range turn[:n] {
			p.Steps[i].wait(text)
		}
		turn = turn[n:]
	}
}
