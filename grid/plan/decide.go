package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/topology"
)

// steps are what every unit with nodes needs, by unit; or the one child that
// serves all of them.
func (x *Index) steps(g *tracked, m lacks) []Step {
	if !g.kind.PerUnit {
		return []Step{x.serviceStep(g, m)}
	}
	units, sorted := x.units.of(g.unitKey), x.units.sorted(g.unitKey)
	steps := make([]Step, 0, len(sorted))
	for _, unit := range sorted {
		step, m := x.assess(g, unit), units[unit]
		step.Nodes, step.Dark, step.members = m.nodes, m.dark(), m
		steps = append(steps, step)
	}
	if len(g.assessed) > len(sorted) {
		maps.DeleteFunc(g.assessed, func(unit string, _ *assessment) bool { return units[unit] == nil })
	}
	return steps
}

func (x *Index) assess(g *tracked, unit string) Step {
	live, last := g.live(unit), g.assessed[unit]
	if last != nil && last.child == live && live != nil {
		return last.step
	}
	step := x.judge(g, unit, live)
	g.assessed[unit] = &assessment{live, step}
	return step
}

func (x *Index) judge(g *tracked, unit string, live *child) Step {
	step := Step{Unit: unit, Kind: g.kind.Child, Name: g.kind.name(g.ref.Name, unit)}
	template, why := g.template(unit)
	if live != nil {
		step.Name, step.Version, step.Size = live.ref.Name, live.version, live.size()
		step.Ready, step.Updated = live.progress()
		step.appliedAt = live.appliedAt()
		step.Unmark = live.annotations[names.UnitGone] != "" && g.owns(live) && !deleting(live.obj)
	}
	switch {
	case why != "":
	case g.leaves(&step, live, "child"):
		return step
	case live != nil && deleting(live.obj):
		step.Action, step.Why, step.ending = Wait, "it is being deleted, and will be made again", true
		return step
	case live == nil:
		step.Name, why = x.name(g, unit, max(template.replicas, 1))
	}
	if why != "" {
		step.Action, step.Why = Refuse, why
		return step
	}
	return g.decide(step, live, template)
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
		step.live, step.Unmark = true, false // it goes with the others
		return true
	}
	return false
}

// unowned says that an object is in the way, and what to do about it.
func (g *grid) unowned(what string) string {
	return fmt.Sprintf("%s exists and is not this grid's; delete it, or hand it over by the labels %s=%s and %s=%s", what, names.GridSelector, g.ref.Name, names.GridUniqKey, keyLabel(g.unitKey))
}

// live is the child of a unit, under whatever name it was made; nil for none. Anybody who
// may make an object may give it a grid's labels: that one takes no other's place.
func (g *tracked) live(unit string) *child {
	list := g.children[unit]
	switch len(list) {
	case 0:
		return nil
	case 1:
		return list[0]
	}
	name := g.kind.name(g.ref.Name, unit)
	rank := func(c *child) int {
		if c.ref.Name == name {
			return 2 * g.claim(c)
		}
		return 2*g.claim(c) + 1
	}
	return slices.MinFunc(list, func(a, b *child) int { return rank(a) - rank(b) }) // of equals the first by name
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
// first by name, and has no child under another one. The name before a dash is
// the grid's then, so that no other grid has to be looked at.
func (x *Index) rival(g *tracked, unit, name string) (Ref, string, bool) {
	for at, r := range name {
		if r != '-' {
			continue
		}
		ref, its := Ref{g.ref.Kind, g.ref.Namespace, name[:at]}, name[at+1:]
		h := x.grids[ref]
		if h == nil || its == unit || h.deleting || !h.valid || compareRefs(ref, g.ref) >= 0 {
			continue
		}
		if x.units.of(h.unitKey)[its] != nil && len(h.children[its]) == 0 {
			return ref, its, true
		}
	}
	return Ref{}, "", false
}

// serviceStep is what becomes of the one Service of a grid.
func (x *Index) serviceStep(g *tracked, m lacks) Step {
	step := Step{Kind: g.kind.Child, Name: g.kind.name(g.ref.Name, "")}
	at := Ref{g.kind.Child, g.ref.Namespace, step.Name}
	live := x.children[at]
	owner, owned := gridOf(live)
	if live != nil {
		step.Version, step.Size = live.version, live.size()
	}
	switch {
	case live != nil && (!owned || owner != g.ref), x.taken[at]:
		step.Action, step.Why = Refuse, g.unowned("a "+g.kind.Child+" of this name")
		return step
	case g.leaves(&step, live, g.kind.Child):
		return step
	}
	if m.holds {
		step.Action, step.live, step.Ready, step.Why = Hold, true, true, x.stays(g, live)
		return step
	}
	if live != nil {
		step.Ready, step.Updated = true, true
	} else if why := g.kind.badName(step.Name, 0); why != "" {
		step.Action, step.Why = Refuse, why
		return step
	}
	template, _ := g.template("")
	return g.decide(step, live, template)
}

// overApplied is the annotation that says what was applied.
const overApplied = "metadata.annotations." + names.Applied

// decide compares what is wanted with what is there.
func (g *grid) decide(step Step, live *child, t *template) Step {
	d := g.desired(t, step.Unit, step.Name, live)
	switch {
	case live == nil:
		step.Action, step.Over = Create, OverAll
	case live.annotations[names.Applied] == "":
		step.Action, step.Why = Adopt, "has the grid's labels, made by another controller"
		step.changed, step.Over = d.restarts(), overApplied
	case live.annotations[names.Applied] != d.hash:
		step.Action, step.Why, step.changed, step.Over = Update, "the grid changed", true, overApplied
	default:
		step = d.keep(step)
	}
	if step.Action == Update || step.Action == Adopt {
		step.Updated = false
	}
	step.live, step.Size = live != nil, max(step.Size, t.alike.size())
	if step.Action != Keep {
		step.desired = d
	}
	return step
}

// keep is the step of a child to which the grid was applied as it is.
func (d *desired) keep(step Step) Step {
	step.Action = Keep
	list := d.drifted(d.live)
	switch {
	case len(list) > 0 && d.live.annotations[names.Settled] != d.settled(list):
		step.Action, step.Over, step.Why = Update, list[0].path, list[0].path+" was changed by hand"
	case !step.Updated:
		step.Why = d.live.lag()
		fresh, _ := d.live.mixed()
		step.Mixed = fresh > 0
	case step.Unmark:
		step.Why = "its unit is back"
	case len(list) > 0:
		step.Why = list[0].path + " is not as the grid has it, and applying that changes nothing: a webhook, a policy or a default has the last word"
	}
	return step
}

// troubles are what is wrong with units.
func (g *tracked) troubles(steps []Step) []topology.Problem {
	return slices.Concat(g.refusals(steps), g.rejections(steps), g.quarrels(steps))
}

// refusals are the units that cannot have a child, and rejections what the API
// server would not have, which the steps say from then on: one Problem for each
// reason, however many units.
func (g *tracked) refusals(steps []Step) []topology.Problem {
	byWhy := map[string][]string{}
	for _, step := range steps {
		if step.Action == Refuse {
			byWhy[step.Why] = append(byWhy[step.Why], step.Unit)
		}
	}
	return g.problemsOf(byWhy)
}

func (g *tracked) rejections(steps []Step) []topology.Problem {
	byWhy, known := map[string][]string{}, map[pairing]string{}
	for i := range steps {
		step := &steps[i]
		if f, _ := g.failure(*step); f.Final && (step.Writes() || step.Action == Wait) {
			step.Why = f.Text
			if why := g.frozen(step.Unit, known); why != "" {
				step.Why += "; " + why
			}
			byWhy[step.Why] = append(byWhy[step.Why], step.Unit)
		}
	}
	return g.problemsOf(byWhy)
}

// pairing is a template with what some children have alike.
type pairing struct {
	*template
	alike packed
}

// frozen says that the live child of a unit has other values of such fields than
// its template, and what to do; "" where it has not, or there is none. What is known of
// such children is not looked for again: the texts may be large, and come in turns.
func (g *tracked) frozen(unit string, known map[pairing]string) string {
	live := g.live(unit)
	t, _ := g.template(unit)
	if live == nil || t == nil || !g.owns(live) || deleting(live.obj) {
		return ""
	}
	at := pairing{t, live.alike}
	why, is := known[at]
	if is {
		return why
	}
	if fields := t.compare(live).fixed; len(fields) > 0 {
		why = "the " + g.kind.Child + " is there with another " + strings.Join(fields, ", ") +
			", which Kubernetes does not change: the API server refuses the update; write what it has, or delete it, and it is made anew"
	}
	known[at] = why
	return why
}

// contest notes which children are not as they are to be but for the moment:
// somebody else changes them again and again.
func (g *tracked) contest(steps []Step) {
	for i := range steps {
		if step := &steps[i]; g.disputed[step.Name].Over != "" {
			step.Updated = false
			step.Why = cmp.Or(step.Why, "somebody else keeps changing it")
		}
	}
}

// quarrels are the children that somebody else changes again and again.
func (g *tracked) quarrels(steps []Step) []topology.Problem {
	byWhy := map[string][]string{}
	for _, step := range steps {
		over := g.disputed[step.Name].Over
		if over == "" || step.leaving() {
			continue
		}
		why := "somebody else, a webhook or another controller, keeps changing " + over + " of the child; let them leave it alone, or have the template say what they want"
		if over == OverAll {
			why = "somebody else keeps deleting the child; let them leave it alone"
		}
		byWhy[why] = append(byWhy[why], step.Unit)
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
