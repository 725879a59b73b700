package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/topology"
)

// Plan plans one grid; ok is false where there is none. It costs little for
// units in which nothing changed.
func (x *Index) Plan(ref Ref, guard Guard, now time.Time) (p Plan, ok bool) {
	g := x.grids[ref]
	if g == nil {
		return Plan{}, false
	}
	p = Plan{Grid: ref, UID: g.uid, UnitKey: g.unitKey, Problems: slices.Clone(g.problems)}
	delete(x.refusing, ref)
	switch {
	case g.going: // its children follow it, or stay without it
		return p, true
	case !g.sound: // its children stay as they are
	case g.child == "Service":
		p.Steps = []Step{x.serve(g)}
	default:
		p.Steps = x.workloads(g)
	}
	p.Problems = append(p.Problems, refusals(g, p.Steps)...)
	p.Problems = append(p.Problems, g.rejections()...)
	if slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Action == Refuse || s.Action == Create }) {
		x.refusing[ref] = true
	}
	if g.child == "Service" {
		g.serviceStatus(&p, now)
		return p, true
	}
	state := g.state()
	if g.sound {
		g.waves(&p, &state, now)
		x.leftovers(g, &p, &state, guard, now)
		g.revise(&p)
		p.Unused = g.unused()
	}
	g.workloadStatus(&p, state, now)
	return p, true
}

// workloads are the steps of the units that have nodes, by unit.
func (x *Index) workloads(g *grid) []Step {
	units := x.units[g.unitKey]
	steps := make([]Step, 0, len(units))
	assessed := make(map[string]assessment, len(units))
	for _, unit := range slices.Sorted(maps.Keys(units)) {
		a := x.assess(g, unit)
		a.step.Nodes, a.step.Dark = units[unit].nodes, units[unit].dark()
		assessed[unit] = a
		steps = append(steps, a.step)
	}
	g.assessed = assessed
	return steps
}

// assessment is what a unit needs, kept as long as its child and its grid
// stay the same.
type assessment struct {
	child *child
	step  Step
}

func (x *Index) assess(g *grid, unit string) assessment {
	live := g.live(unit)
	if a, ok := g.assessed[unit]; ok && a.child == live && live != nil {
		return a
	}
	a := assessment{child: live, step: Step{Unit: unit, Kind: g.child, Name: g.plain(unit)}}
	template, why := g.template(unit)
	if live != nil {
		a.step.Name = live.ref.Name
		a.step.Ready, a.step.Updated = live.progress()
		a.step.appliedAt = live.appliedAt()
	}
	switch {
	case why != "":
	case g.leaves(&a.step, live, "child"):
		return a
	case live != nil && text(live.obj, "metadata", "deletionTimestamp") != "":
		a.step.Action, a.step.Why = Wait, "it is being deleted, and will be made again"
		return a
	case live == nil:
		a.step.Name, why = x.name(g, unit, max(template.replicas, 1))
	}
	if why != "" {
		a.step.Action, a.step.Why = Refuse, why
		return a
	}
	a.step = g.decide(a.step, live, template)
	return a
}

// leaves tells whether a child is not to be kept in line: it belongs to an
// earlier grid of this name, or its label names this one no longer.
func (g *grid) leaves(step *Step, live *child, word string) bool {
	switch {
	case live == nil:
		return false
	case !g.owns(live):
		step.Action, step.Why = Wait, "the "+word+" of an earlier grid of this name is being deleted"
		return true
	case live.labels[names.GridSelector] != g.ref.Name && live.annotations[names.Applied] != "":
		step.Action, step.Why = Release, fmt.Sprintf("its label %s is %q", names.GridSelector, live.labels[names.GridSelector])
		step.live, step.Version = true, live.version
		return true
	}
	return false
}

// stranger says that an object is in the way, and what to do about it.
func (g *grid) stranger(what string) string {
	return fmt.Sprintf("%s exists and is not this grid's; delete it, or hand it over by the labels %s=%s and %s=%s", what, names.GridSelector, g.ref.Name, names.GridUniqKey, keyLabel(g.unitKey))
}

// live is the child of a unit, under whatever name it was made.
func (g *grid) live(unit string) *child {
	list := g.units[unit]
	for _, c := range list {
		if g.owns(c) {
			return c
		}
	}
	if len(list) > 0 {
		return list[0]
	}
	return nil
}

// name chooses the name of a new child. "a"+"b-c" and "a-b"+"c" want the same.
func (x *Index) name(g *grid, unit string, replicas int64) (name, why string) {
	name = g.plain(unit)
	at := Ref{g.child, g.ref.Namespace, name}
	if rival, its, ok := x.rival(g, unit, name); ok {
		why = fmt.Sprintf("the name %s belongs to unit %s of %s", name, its, rival)
	} else if x.children[at] != nil || x.taken[at] {
		why = g.stranger("a " + g.child + " " + name)
	} else {
		why = fault(g.child, name, replicas)
	}
	if why == "" || g.child != "Deployment" {
		return name, why
	}
	name = hashedName(g.ref.Name, unit) // nobody dials a Deployment by name
	if at.Name = name; x.children[at] != nil || x.taken[at] {
		return name, fmt.Sprintf("a Deployment %s exists and is not this grid's; delete it", name)
	}
	return name, ""
}

// rival is a grid with a unit that has a better claim to a name: it comes
// first by name, and has no child under another one.
func (x *Index) rival(g *grid, unit, name string) (Ref, string, bool) {
	for ref, h := range x.grids {
		if ref == g.ref || ref.Kind != g.ref.Kind || ref.Namespace != g.ref.Namespace || h.going || !h.sound || compareRefs(g.ref, ref) < 0 {
			continue
		}
		its, ok := strings.CutPrefix(name, ref.Name+"-")
		if ok && its != unit && x.units[h.unitKey][its] != nil && len(h.units[its]) == 0 {
			return ref, its, true
		}
	}
	return Ref{}, "", false
}

func (x *Index) serve(g *grid) Step {
	step := Step{Kind: g.child, Name: g.plain("")}
	at := Ref{"Service", g.ref.Namespace, step.Name}
	live := x.children[at]
	owner, owned := of(live)
	switch {
	case live != nil && (!owned || owner != g.ref), x.taken[at]:
		step.Action, step.Why = Refuse, g.stranger("a Service of this name")
		return step
	case g.leaves(&step, live, "Service"):
		return step
	}
	template, _ := g.template("")
	step.Ready, step.Updated = live != nil, live != nil
	return g.decide(step, live, template)
}

// decide compares what is wanted with what is there.
func (g *grid) decide(step Step, live *child, t *template) Step {
	w := g.wants(t, step.Unit, step.Name, live)
	switch {
	case live == nil:
		step.Action = Create
	case live.annotations[names.Applied] == "":
		step.Action, step.Why = Adopt, "has the grid's labels, made by another controller"
	case live.annotations[names.Applied] != w.hash:
		step.Action, step.Why, step.changed = Update, "the grid changed", true
	case live.annotations[names.UnitGone] != "":
		step.Action, step.Why, step.Unmark = Update, "its unit is back", true
	default:
		step.Action = Keep
		if at := w.drifted(); at != "" {
			step.Action, step.Why = Update, at+" was changed by hand"
		} else if !step.Updated {
			step.Why = live.lag()
		}
	}
	if step.Action == Update || step.Action == Adopt {
		step.Updated = false
	}
	if live != nil {
		step.live, step.Version = true, live.version
	}
	if step.Action == Update {
		step.Print = Print(live.obj)
	}
	if step.Action != Keep {
		step.wish = w
	}
	return step
}

// rejections are what the API server would not have.
func (g *grid) rejections() []topology.Problem {
	byWhy := map[string][]string{}
	for unit, f := range g.failures {
		if f.Final {
			byWhy[f.Text] = append(byWhy[f.Text], unit)
		}
	}
	return g.problemsOf(byWhy)
}

// refusals are the units that cannot have a child.
func refusals(g *grid, steps []Step) []topology.Problem {
	byWhy := map[string][]string{}
	for _, step := range steps {
		if step.Action == Refuse {
			byWhy[step.Why] = append(byWhy[step.Why], step.Unit)
		}
	}
	return g.problemsOf(byWhy)
}

// problemsOf are one Problem for each reason, however many units have it.
func (g *grid) problemsOf(byWhy map[string][]string) []topology.Problem {
	var list []topology.Problem
	for _, why := range slices.Sorted(maps.Keys(byWhy)) {
		p := topology.Problem{Object: g.ref.String(), Text: why}
		if g.child != "Service" {
			slices.Sort(byWhy[why])
			p.Field = "unit " + Short(byWhy[why])
		}
		list = append(list, p)
	}
	return list
}
