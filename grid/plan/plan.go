package plan

import (
	"slices"
	"time"
)

// All plans every grid of a world, by namespace, kind and name.
func All(w World, guard Guard, now time.Time) []Plan {
	x := indexOf(w)
	var plans []Plan
	for _, ref := range x.Grids() {
		if p, ok := x.Plan(ref, guard, now); ok {
			plans = append(plans, p)
		}
	}
	return plans
}

// Plan plans one grid; ok is false where there is none. It costs little for
// units in which nothing changed.
func (x *Index) Plan(ref Ref, guard Guard, now time.Time) (p Plan, ok bool) {
	g := x.grids[ref]
	if g == nil {
		return Plan{}, false
	}
	p = Plan{Grid: ref, UID: g.uid, UnitKey: g.unitKey, Generation: g.generation, Problems: slices.Clone(g.problems)}
	delete(x.refusing, ref)
	delete(x.unitless, ref)
	if g.deleting { // its children follow it, or stay without it
		return p, true
	}
	var lacking lacks
	if g.valid { // else its children stay as they are
		lacking = x.lacks(g)
		p.Steps = x.steps(g, lacking)
		g.contest(p.Steps)
		p.Problems = append(p.Problems, g.absences(lacking)...)
	}
	if len(x.units.of(g.unitKey)) == 0 {
		x.unitless[ref] = true
	}
	if slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Action == Refuse || s.Action == Create }) {
		x.refusing[ref] = true
	}
	if !g.kind.PerUnit {
		p.Problems = append(p.Problems, g.troubles(p.Steps)...)
		g.serviceStatus(&p, now)
		return p, true
	}
	state := g.state(now)
	if g.valid {
		state.lacks = lacking
		if len(state.never) > 0 && g.goesBack() { // in a hurry, and to what was there before
			state.never = nil
		}
		state.before = g.before(p.Steps)
		g.holdBack(&p, &state, now)
		x.begin(g, &p, &state, now)
		g.admit(&p, guard.Since, now)
		x.leftovers(g, &p, &state, guard, now)
		g.revise(&p, state.before.revision)
		p.Unused = g.unused()
	}
	p.Problems = append(p.Problems, g.troubles(p.Steps)...)
	g.workloadStatus(&p, state, now)
	return p, true
}
