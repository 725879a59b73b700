package plan

import (
	"cmp"
	"fmt"
	"time"
)

// begin has the children that are to be made begin with what was complete last, where the
// change has not come to their unit's turn, or is stopped or paused: a new unit, or a child
// that somebody deletes, must not get what nobody vouches for.
func (x *Index) begin(g *tracked, p *Plan, s *state, now time.Time) {
	halted := s.stopped != "" || s.paused
	for i := range p.Steps {
		step := &p.Steps[i]
		switch {
		case step.Action != Create || g.complete() == "":
		case step.early, halted && !g.stops(step, now):
			x.beginWith(g, step)
		}
	}
}

// stops reports whether a child that is to be made is what stops the rollout: the change
// failed in its unit, and is tried there again, for to delete the child may be the cure; or
// others keep deleting it, whatever it is made of.
func (g *tracked) stops(s *Step, now time.Time) bool {
	failure, d := g.failures[s.Unit], g.disputed[s.Name]
	return failure.Hash == s.Hash() || d.Over == OverAll && now.Sub(d.Since) >= g.waves.deadline
}

// beginWith has a child be made of what was complete last; or refuses it where that is
// not to be had.
func (x *Index) beginWith(g *tracked, step *Step) {
	was, why := g.asComplete()
	var t *template
	if why == "" {
		t, why = was.template(step.Unit)
	}
	if why == "" {
		step.Name, why = x.name(g, step.Unit, max(t.replicas, 1))
	}
	of := RevisionKind + " " + g.complete() + ", which was complete last"
	if why != "" {
		step.Action, step.desired = Refuse, nil
		step.Why = fmt.Sprintf("the unit is to begin with %s, until the change comes to it; %s", of, why)
		return
	}
	step.desired, step.Size = was.desired(t, step.Unit, step.Name, nil), t.alike.size()
	step.Why = "it begins with " + of + "; the change: " + cmp.Or(step.Why, "in its turn")
}
