package plan

import (
	"fmt"
	"math"
	"slices"

	apiv1 "github.com/gridmesh/gridmesh/api/v1"
)

// mostFailed bounds the units that a status names.
const mostFailed = 100

// What stopped a rollout is remembered in the status: a unit that goes out of sight has not
// become well by that, and who takes over knows no refusal of before. It is forgotten once
// the unit is well, or is to have something else.

// failedBefore reports whether the change failed in a unit before, and it was not well since.
func failedBefore(r *apiv1.RolloutStatus, unit string) bool {
	return r != nil && slices.Contains(r.Failed, unit)
}

// lost are units that failed and have no node any more, while their child is kept.
func (g *tracked) lost(p *Plan, r *apiv1.RolloutStatus) (units []string) {
	if r == nil {
		return nil
	}
	for _, unit := range r.Failed {
		there := slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Unit == unit })
		if c := g.live(unit); !there && c != nil && g.made(c) {
			units = append(units, unit)
		}
	}
	return units
}

// nameless is how many units a status counts as failed, and does not name.
func nameless(r *apiv1.RolloutStatus) int64 {
	switch {
	case r == nil:
		return 0
	case r.FailedUnits == 0 && len(r.Failed) == mostFailed: // of an earlier version, which did not count
		return math.MaxInt32
	}
	return max(0, r.FailedUnits-int64(len(r.Failed)))
}

// noteFailed notes in the status which units failed, and how many there are with those
// that have no name there. Those are among the ones that the change has reached, that are
// not well, and of which it is not known that they failed: while one of those is out of
// sight it counts as failed (front.hidden).
func (g *tracked) noteFailed(p *Plan, r *apiv1.RolloutStatus, f *front) {
	units, more := slices.Concat(f.lost, f.anew), nameless(r)
	for _, i := range f.failed {
		unit := p.Steps[i].Unit
		if units = append(units, unit); more > 0 && !failedBefore(r, unit) {
			more--
		}
	}
	f.hidden = min(more, f.dark)
	if more > f.hidden {
		f.hidden = min(more, f.dark+g.goneWith(p, r))
	}
	more = min(more, f.hidden+int64(len(f.busy)-len(f.anew)))
	slices.Sort(units)
	r.Failed, r.FailedUnits = units[:min(mostFailed, len(units))], int64(len(units))+more
}

// goneWith is how many units have no node any more, are not named as failed, and had the
// change.
func (g *tracked) goneWith(p *Plan, r *apiv1.RolloutStatus) (n int64) {
	there := make(map[string]bool, len(p.Steps))
	for _, s := range p.Steps {
		there[s.Unit] = true
	}
	b := bearing{tracked: g}
	for unit := range g.children {
		if c := g.live(unit); !there[unit] && !failedBefore(r, unit) && g.made(c) {
			if t, _ := g.template(unit); t != nil && t.sum == b.of(unit, c) {
				n++
			}
		}
	}
	return n
}

// failedStill are the units that failed and that another revision has the same for.
func (g *tracked) failedStill(p *Plan, r *apiv1.RolloutStatus) (units []string) {
	was := g.asIn(r.Revision)
	for _, unit := range r.Failed {
		is, _ := g.template(unit)
		same := slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Unit == unit && s.asTold() }) // if the revision is gone
		if was != nil {
			before, _ := was.template(unit)
			same = is != nil && before != nil && before.sum == is.sum
		}
		if same {
			units = append(units, unit)
		}
	}
	return units
}

// overdue says what stops a rollout, and of the first unit why, where that is
// known; and how long units took, where it is that.
func (g *tracked) overdue(p *Plan, f front) string {
	units, cause, late := slices.Clone(f.lost), "", ""
	for _, at := range f.failed {
		step := p.Steps[at]
		units = append(units, step.Unit)
		if why := g.cause(step); cause == "" && why != "" {
			cause = " (" + why + ")"
		}
		if f, failing := g.failure(step); !step.Dark && !f.Final && (failing || !step.changed) {
			late = fmt.Sprintf(" %s after the change reached it", g.waves.deadline)
		}
	}
	if late == "" && cause == "" {
		cause = " (it failed, and is out of sight)"
	}
	more := ""
	if f.hidden > 0 {
		more = fmt.Sprintf(", nor %s out of sight", count(f.hidden, "other", "others"))
	}
	return fmt.Sprintf("unit %s is not ready%s%s%s; mend it, change the template, or roll back", Short(units), late, cause, more)
}

// cause is what is known of why the change failed in a unit, or "".
func (g *tracked) cause(step Step) string {
	failure, failing := g.failure(step)
	over := g.disputed[step.Name].Over
	switch {
	case failing && step.desired != nil:
		return fmt.Sprintf("%s %s cannot be written: %s", step.Kind, step.Name, failure.Text)
	case over == OverAll:
		return fmt.Sprintf("somebody else keeps deleting %s %s", step.Kind, step.Name)
	case over != "":
		return fmt.Sprintf("somebody else keeps changing %s of %s %s", over, step.Kind, step.Name)
	case step.changed:
		return fmt.Sprintf("%s %s could not be written", step.Kind, step.Name)
	}
	return ""
}
