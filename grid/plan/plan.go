package plan

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/topology"
)

// childKey names a child.
type childKey struct{ kind, namespace, name string }

// state is a World, indexed.
type state struct {
	now      time.Time
	guard    Guard
	units    map[string]map[string]int // unit key -> unit -> nodes
	children map[childKey]Object
	byGrid   map[topology.ObjectKey][]Object // by grid-selector
	claims   map[childKey]string             // plain name -> "grid/unit" that has it
	grids    []*grid
}

// All plans every grid of a world, by namespace, kind and name. Grids of
// SuperEdge's federation are left alone.
func All(w World, guard Guard, now time.Time) []Plan {
	s := &state{
		now: now, guard: guard, units: map[string]map[string]int{}, children: map[childKey]Object{},
		byGrid: map[topology.ObjectKey][]Object{}, claims: map[childKey]string{},
	}
	var broken []*grid
	for _, obj := range w.Grids {
		labels := texts(obj, "metadata", "labels")
		if labels[names.Federated] != "" || labels[names.Distributed] != "" {
			continue
		}
		if g, ok := read(obj); ok {
			s.grids = append(s.grids, g)
		} else {
			broken = append(broken, g)
		}
	}
	slices.SortFunc(s.grids, compareGrids)
	s.index(w)
	s.claim()
	plans := make([]Plan, 0, len(s.grids)+len(broken))
	for _, g := range s.grids {
		plans = append(plans, s.plan(g))
	}
	for _, g := range broken { // its children stay as they are
		plans = append(plans, Plan{Kind: g.kind, Key: g.key, UnitKey: g.unitKey, Problems: g.problems})
	}
	slices.SortFunc(plans, func(a, b Plan) int {
		return cmp.Or(strings.Compare(a.Key.Namespace, b.Key.Namespace), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Key.Name, b.Key.Name))
	})
	return plans
}

func compareGrids(a, b *grid) int {
	return cmp.Or(a.key.Compare(b.key), strings.Compare(a.kind, b.kind))
}

func (s *state) index(w World) {
	for _, g := range s.grids {
		s.units[g.unitKey] = map[string]int{}
	}
	for _, n := range w.Nodes {
		labels := texts(n, "metadata", "labels")
		for key, units := range s.units {
			if unit := labels[key]; unit != "" {
				units[unit]++
			}
		}
	}
	for _, c := range w.Children {
		key := childKey{text(c, "kind"), cmp.Or(text(c, "metadata", "namespace"), names.DefaultNamespace), text(c, "metadata", "name")}
		s.children[key] = c
		if grid := texts(c, "metadata", "labels")[names.GridSelector]; grid != "" {
			of := topology.ObjectKey{Namespace: key.namespace, Name: grid}
			s.byGrid[of] = append(s.byGrid[of], c)
		}
	}
}

// claim gives each plain name to one grid and unit: to the one whose child
// has it, else to the first by name. "a"+"b-c" and "a-b"+"c" want the same.
func (s *state) claim() {
	for _, g := range s.grids {
		for _, unit := range s.unitsOf(g) {
			key := childKey{g.child, g.key.Namespace, g.plain(unit)}
			if live, ok := s.children[key]; ok && s.owns(g, live) && unitOf(g, live) == unit {
				s.claims[key] = claimant(g, unit)
			}
		}
	}
	for _, g := range s.grids {
		for _, unit := range s.unitsOf(g) {
			key := childKey{g.child, g.key.Namespace, g.plain(unit)}
			if _, taken := s.claims[key]; !taken {
				s.claims[key] = claimant(g, unit)
			}
		}
	}
}

func claimant(g *grid, unit string) string { return g.kind + "\x00" + g.key.Name + "\x00" + unit }

// unitsOf lists a grid's units, sorted; a ServiceGrid has one child for all.
func (s *state) unitsOf(g *grid) []string {
	if g.child == "Service" {
		return []string{""}
	}
	return slices.Sorted(maps.Keys(s.units[g.unitKey]))
}

func (g *grid) plain(unit string) string {
	if g.child == "Service" {
		return g.key.Name + "-svc"
	}
	return plainName(g.key.Name, unit)
}

// owns tells whether a child is this grid's: by its controller, or, where it
// has none, by its labels.
func (s *state) owns(g *grid, child Object) bool {
	owners, _ := object(child, "metadata")["ownerReferences"].([]any)
	for _, o := range owners {
		if ref, ok := o.(Object); ok && ref["controller"] == true {
			return ref["kind"] == g.kind && ref["name"] == g.key.Name && (g.uid == "" || ref["uid"] == g.uid)
		}
	}
	labels := texts(child, "metadata", "labels")
	return labels[names.GridSelector] == g.key.Name && labels[names.GridUniqKey] == keyLabel(g.unitKey)
}

// unitOf is the unit of a child: as annotated, or, for SuperEdge's, by its
// node selector.
func unitOf(g *grid, child Object) string {
	if unit, ok := texts(child, "metadata", "annotations")[names.Unit]; ok {
		return unit
	}
	return texts(child, "spec", "template", "spec", "nodeSelector")[g.unitKey]
}

func (s *state) plan(g *grid) Plan {
	p := Plan{Kind: g.kind, Key: g.key, UnitKey: g.unitKey, Problems: g.problems}
	if g.child == "Service" {
		p.Steps = []Step{s.serve(g)}
		return p
	}
	kept := map[string]bool{}
	for _, unit := range s.unitsOf(g) {
		step := s.unit(g, unit)
		kept[step.Name] = true
		p.Steps = append(p.Steps, step)
	}
	p.Problems = append(p.Problems, refusals(g, p.Steps)...)
	p.Steps = append(p.Steps, s.leftovers(g, kept)...)
	return p
}

// refusals are one Problem for each reason, however many units have it.
func refusals(g *grid, steps []Step) []topology.Problem {
	byWhy := map[string][]string{}
	for _, step := range steps {
		if step.Action == Refuse {
			byWhy[step.Why] = append(byWhy[step.Why], step.Unit)
		}
	}
	var list []topology.Problem
	for _, why := range slices.Sorted(maps.Keys(byWhy)) {
		const named = 3
		units := byWhy[why]
		field := "unit " + strings.Join(units[:min(named, len(units))], ", ")
		if more := len(units) - named; more > 0 {
			field += fmt.Sprintf(" and %d more", more)
		}
		list = append(list, topology.Problem{Object: strings.ToLower(g.kind) + " " + g.key.String(), Field: field, Text: why})
	}
	return list
}

// live finds the child of a unit, under whatever name it was made.
func (s *state) live(g *grid, unit string) (name string, child Object) {
	for _, c := range s.byGrid[g.key] {
		if text(c, "kind") == g.child && s.owns(g, c) && unitOf(g, c) == unit {
			return text(c, "metadata", "name"), c
		}
	}
	return "", nil
}

func (s *state) unit(g *grid, unit string) Step {
	step := Step{Unit: unit, Nodes: s.units[g.unitKey][unit], Kind: g.child, Name: g.plain(unit)}
	template, why := g.template(unit)
	name, child := s.live(g, unit)
	if child != nil {
		step.Name = name
	} else if why == "" {
		step.Name, why = s.name(g, unit, number(template, 1, "replicas"))
	}
	if why != "" {
		step.Action, step.Why = Refuse, why
		return step
	}
	return s.decide(step, child, g.workload(template, unit, step.Name))
}

// name chooses the name of a new child.
func (s *state) name(g *grid, unit string, replicas int64) (name, why string) {
	name = g.plain(unit)
	key := childKey{g.child, g.key.Namespace, name}
	switch owner := s.claims[key]; {
	case owner != claimant(g, unit):
		parts := strings.Split(owner, "\x00")
		why = fmt.Sprintf("the name %s belongs to unit %s of %s %s", name, parts[2], strings.ToLower(parts[0]), parts[1])
	case s.children[key] != nil:
		why = fmt.Sprintf("a %s %s exists and is not this grid's", g.child, name)
	default:
		why = fault(g.child, name, replicas)
	}
	if why != "" && g.child == "Deployment" {
		return hashedName(g.key.Name, unit), "" // nobody dials a Deployment by name
	}
	return name, why
}

func (s *state) serve(g *grid) Step {
	step := Step{Kind: g.child, Name: g.plain("")}
	child := s.children[childKey{g.child, g.key.Namespace, step.Name}]
	if child != nil && !s.owns(g, child) {
		step.Action, step.Why = Refuse, fmt.Sprintf("a Service of this name exists and is not this grid's; delete it, or hand it over by the labels %s=%s and %s=%s", names.GridSelector, g.key.Name, names.GridUniqKey, keyLabel(g.unitKey))
		return step
	}
	return s.decide(step, child, g.service(step.Name))
}

// decide compares what is wanted with what is there.
func (s *state) decide(step Step, child, wanted Object) Step {
	step.Object = wanted
	was, want := texts(child, "metadata", "annotations"), texts(wanted, "metadata", "annotations")
	if child != nil && was[names.Replicas] == want[names.Replicas] && othersScale(child) {
		delete(object(wanted, "spec"), "replicas") // theirs, until the template's changes
	}
	switch {
	case child == nil:
		step.Action = Create
	case was[names.Applied] == "":
		step.Action, step.Why = Adopt, "has the grid's labels, made by another controller"
	case was[names.Applied] != want[names.Applied]:
		step.Action, step.Why = Update, "the grid changed"
	case was[names.UnitGone] != "":
		step.Action, step.Why, step.Unmark = Update, "its unit is back", true
	default:
		step.Action, step.Object = Keep, nil
		if at := drift(wanted["spec"], child["spec"], "spec"); at != "" {
			step.Action, step.Object, step.Why = Update, wanted, at+" was changed by hand"
		} else if at := drift(object(wanted, "metadata")["labels"], object(child, "metadata")["labels"], "metadata.labels"); at != "" {
			step.Action, step.Object, step.Why = Update, wanted, at+" was changed by hand"
		} else if was[names.TopologyKeys] != want[names.TopologyKeys] {
			step.Action, step.Object, step.Why = Update, wanted, "annotation "+names.TopologyKeys+" was changed by hand"
		}
	}
	return step
}

// leftovers are children whose unit has no node any more. The first time one is
// seen it is to be annotated with the time (UnitGone).
func (s *state) leftovers(g *grid, kept map[string]bool) []Step {
	var gone []Step
	for _, c := range s.byGrid[g.key] {
		name := text(c, "metadata", "name")
		if text(c, "kind") != g.child || kept[name] || !s.owns(g, c) {
			continue
		}
		step := Step{Unit: unitOf(g, c), Kind: g.child, Name: name, Action: Hold}
		since, err := time.Parse(time.RFC3339, texts(c, "metadata", "annotations")[names.UnitGone])
		switch left := s.guard.Grace - s.now.Sub(since); {
		case err != nil:
			step.Unmarked, step.Wait = true, s.guard.Grace
			step.Why = fmt.Sprintf("no node has %s=%s any more; it is removed after %s", g.unitKey, step.Unit, s.guard.Grace)
		case left > 0:
			step.Wait = left
			step.Why = fmt.Sprintf("no node has %s=%s any more; it is removed in %s", g.unitKey, step.Unit, left.Round(time.Second))
		default:
			step.Action, step.Why = Remove, fmt.Sprintf("no node has had %s=%s since %s", g.unitKey, step.Unit, since.Format(time.RFC3339))
		}
		gone = append(gone, step)
	}
	slices.SortFunc(gone, func(a, b Step) int { return strings.Compare(a.Name, b.Name) })
	return s.share(gone, len(kept)+len(gone))
}

// share holds back removals beyond the guard's share of units, one at least.
func (s *state) share(gone []Step, units int) []Step {
	most := max(1, int(math.Floor(s.guard.Share*float64(units))))
	removed := 0
	for i := range gone {
		if gone[i].Action != Remove {
			continue
		}
		if removed++; removed > most {
			gone[i].Action = Hold
			gone[i].Why = fmt.Sprintf("%d of %d units are gone; at most %d are removed at once", len(gone), units, most)
		}
	}
	return gone
}
