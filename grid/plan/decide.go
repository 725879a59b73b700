package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/topology"
)

// steps are what every unit with nodes needs, by unit; or the one child that
// serves all of them.
func (x *Index) steps(g *tracked) []Step {
	if !g.kind.PerUnit {
		return []Step{x.serviceStep(g)}
	}
	units := x.units.of(g.unitKey)
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

func (x *Index) assess(g *tracked, unit string) assessment {
	live := g.live(unit)
	if a, ok := g.assessed[unit]; ok && a.child == live && live != nil {
		return a
	}
	a := assessment{child: live, step: Step{Unit: unit, Kind: g.kind.Child, Name: g.kind.name(g.ref.Name, unit)}}
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
	case live != nil && deleting(live.obj):
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

// owns reports whether a child is this grid's own: an earlier grid of the same
// name may have had another UID.
func (g *grid) owns(c *child) bool {
	return c.ownerKind == "" || g.uid == "" || c.ownerUID == g.uid
}

// leaves reports whether a child is not to be kept in line: it belongs to an
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

// unowned says that an object is in the way, and what to do about it.
func (g *grid) unowned(what string) string {
	return fmt.Sprintf("%s exists and is not this grid's; delete it, or hand it over by the labels %s=%s and %s=%s", what, names.GridSelector, g.ref.Name, names.GridUniqKey, keyLabel(g.unitKey))
}

// live is the child of a unit, under whatever name it was made.
func (g *tracked) live(unit string) *child {
	list := g.children[unit]
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
func (x *Index) name(g *tracked, unit string, replicas int64) (name, why string) {
	name = g.kind.name(g.ref.Name, unit)
	at := Ref{g.kind.Child, g.ref.Namespace, name}
	if rival, its, ok := x.rival(g, unit, name); ok {
		why = fmt.Sprintf("the name %s belongs to unit %s of %s", name, its, rival)
	} else if x.inUse(at) {
		why = g.unowned("a " + g.kind.Child + " " + name)
	} else if why = badName(name); why == "" && g.kind.badName != nil {
		why = g.kind.badName(name, replicas)
	}
	if why == "" || !g.kind.hashed {
		return name, why
	}
	name = hashedName(g.ref.Name, unit)
	if at.Name = name; x.inUse(at) {
		return name, fmt.Sprintf("a %s %s exists and is not this grid's; delete it", g.kind.Child, name)
	}
	return name, ""
}

// inUse reports whether there is an object of a child's name.
func (x *Index) inUse(at Ref) bool { return x.children[at] != nil || x.taken[at] }

// rival is a grid with a unit that has a better claim to a name: it comes
// first by name, and has no child under another one.
func (x *Index) rival(g *tracked, unit, name string) (Ref, string, bool) {
	for ref, h := range x.grids {
		if ref == g.ref || ref.Kind != g.ref.Kind || ref.Namespace != g.ref.Namespace || h.deleting || !h.valid || compareRefs(g.ref, ref) < 0 {
			continue
		}
		its, ok := strings.CutPrefix(name, ref.Name+"-")
		if ok && its != unit && x.units.of(h.unitKey)[its] != nil && len(h.children[its]) == 0 {
			return ref, its, true
		}
	}
	return Ref{}, "", false
}

// serviceStep is what becomes of the one Service of a grid.
func (x *Index) serviceStep(g *tracked) Step {
	step := Step{Kind: g.kind.Child, Name: g.kind.name(g.ref.Name, "")}
	at := Ref{g.kind.Child, g.ref.Namespace, step.Name}
	live := x.children[at]
	owner, owned := gridOf(live)
	switch {
	case live != nil && (!owned || owner != g.ref), x.taken[at]:
		step.Action, step.Why = Refuse, g.unowned("a "+g.kind.Child+" of this name")
		return step
	case g.leaves(&step, live, g.kind.Child):
		return step
	}
	template, _ := g.template("")
	step.Ready, step.Updated = live != nil, live != nil
	return g.decide(step, live, template)
}

// decide compares what is wanted with what is there.
func (g *grid) decide(step Step, live *child, t *template) Step {
	d := g.desired(t, step.Unit, step.Name, live)
	switch {
	case live == nil:
		step.Action = Create
	case live.annotations[names.Applied] == "":
		step.Action, step.Why = Adopt, "has the grid's labels, made by another controller"
	case live.annotations[names.Applied] != d.hash:
		step.Action, step.Why, step.changed = Update, "the grid changed", true
	case live.annotations[names.UnitGone] != "":
		step.Action, step.Why, step.Unmark = Update, "its unit is back", true
	default:
		step.Action = Keep
		if at := d.drifted(); at != "" {
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
		step.Fingerprint = Fingerprint(live.obj)
	}
	if step.Action != Keep {
		step.desired = d
	}
	return step
}

// refusals are the units that cannot have a child, and rejections what the API
// server would not have: one Problem for each reason, however many units.
func (g *tracked) refusals(steps []Step) []topology.Problem {
	byWhy := map[string][]string{}
	for _, step := range steps {
		if step.Action == Refuse {
			byWhy[step.Why] = append(byWhy[step.Why], step.Unit)
		}
	}
	return g.problemsOf(byWhy)
}

func (g *tracked) rejections() []topology.Problem {
	byWhy := map[string][]string{}
	for unit, f := range g.failures {
		if f.Final {
			byWhy[f.Text] = append(byWhy[f.Text], unit)
		}
	}
	return g.problemsOf(byWhy)
}

func (g *tracked) problemsOf(byWhy map[string][]string) []topology.Problem {
	var list []topology.Problem
	for _, why := range slices.Sorted(maps.Keys(byWhy)) {
		field := ""
		if g.kind.PerUnit {
			slices.Sort(byWhy[why])
			field = "unit " + Short(byWhy[why])
		}
		list = append(list, g.problem(field, "%s", why))
	}
	return list
}
