package plan

import (
	"cmp"
	"fmt"
	"time"
)

// begin has the children that are to be made begin with what was before, where the
// change has not come to their unit's turn, or is stopped or paused: a new unit, or a child
// that somebody deletes, must not get what nobody vouches for.
func (x *Index) begin(g *tracked, p *Plan, s *state, now time.Time) {
	halted := s.stopped != "" || s.paused
	for i := range p.Steps {
		step := &p.Steps[i]
		switch {
		case step.Action != Create || !s.before.due:
		case step.early, halted && !g.stops(step, now):
			x.beginWith(g, step, s.before)
		}
	}
}

// stops reports whether a child that is to be made is what stops the rollout: the change
// failed in its unit, and is tried there again, for to delete the child may be the cure; or
// others keep deleting it, whatever it is made of.
func (g *tracked) stops(s *Step, now time.Time) bool {
	_, failed := g.failure(*s)
	d := g.disputed[s.Name]
	return failed || s.stuck || d.Over == OverAll && now.Sub(d.Since) >= g.waves.deadline
}

// beginWith has a child be made of what was before; or refuses it where that is not to be
// had.
func (x *Index) beginWith(g *tracked, step *Step, b before) {
	var t *template
	of, why := "what most units have that wait for the change", "no ControllerRevision has that: restore it, roll back to one that is there, or let the change go on"
	switch {
	case b.untold:
		why = "their children do not say what that is (another controller made them, or an earlier version of this one); let the change go on, or roll back"
	case b.was != nil:
		of = RevisionKind + " " + b.revision + ", which most units have that wait for the change"
		t, why = b.was.template(step.Unit)
	}
	if why == "" {
		step.Name, why = x.name(g, step.Unit, max(t.replicas, 1))
	}
	if x.part && len(g.revisions) == 0 {
		step.Action, step.desired = Wait, nil
		step.Why = "it begins with " + of + ", and the ControllerRevision of that is not here; add them (kubectl get controllerrevisions -o yaml)"
		return
	}
	if why != "" {
		step.Action, step.desired = Refuse, nil
		step.Why = fmt.Sprintf("the unit is to begin with %s, until that comes to it; %s", of, why)
		return
	}
	step.desired, step.Size = b.was.desired(t, step.Unit, step.Name, nil), t.alike.size()
	step.desired.early = true
	step.Why = "it begins with " + of + "; that: " + cmp.Or(step.Why, "in its turn")
}
