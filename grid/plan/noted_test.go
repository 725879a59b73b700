package plan

import (
	"maps"
	"slices"

	"github.com/gridmesh/gridmesh/api/names"
	apiv1 "github.com/gridmesh/gridmesh/api/v1"
)

// What the laws know of the past, apart from the code under test.

// noted are the steps at which a child was last seen as the one of its unit, and as one
// that the unit has too many of; zero is never.
type noted struct{ kept, surplus int }

func (c *cluster) note(plans []Plan) {
	for _, p := range plans {
		if c.noted[p.Grid] == nil {
			c.noted[p.Grid] = map[string]noted{}
		}
		for _, s := range p.Steps {
			_, absent := c.absent[[2]string{p.UnitKey, s.Unit}]
			n := c.noted[p.Grid][s.Name]
			switch {
			case s.leaving() && !absent:
				n.surplus = c.steps
			case !s.leaving() && s.Action != Refuse && s.Action != Create:
				n.kept = c.steps
			}
			c.noted[p.Grid][s.Name] = n
		}
	}
}

// noteMended notes which grids are looked at again, that were not, or not for what is
// gone: for their leftovers the index begins the grace anew, and nothing that is written
// says so.
func (c *cluster) noteMended() {
	for ref, g := range c.x.grids {
		was, known := c.planned[ref]
		stays := c.stays(Plan{UID: g.uid, UnitKey: g.unitKey}) != ""
		if known && g.valid && (!was.valid || was.key != g.unitKey) || stays {
			c.mended[ref] = c.steps
		}
		c.planned[ref] = plannedAs{g.valid, g.unitKey}
	}
	for ref := range c.planned {
		if c.x.grids[ref] == nil { // deleted, or another's
			c.planned[ref] = plannedAs{}
			delete(c.pilots, ref)
		}
	}
}

type plannedAs struct {
	valid bool
	key   string
}

// stays is why all that a grid made is to stay: there are no Nodes, or its key is mistyped,
// for nodes have one by which a child was made, and none has the grid's. "" for neither.
func (c *cluster) stays(p Plan) string {
	has := map[string]bool{}
	for _, ref := range c.refs("Node") {
		for key, unit := range readNode(c.objects[ref]).labels {
			has[key] = has[key] || unit != ""
		}
	}
	if has[p.UnitKey] {
		return ""
	}
	for _, ref := range c.refs("Deployment", "StatefulSet") {
		obj := c.objects[ref]
		if value[string](controllerOf(obj), "uid") != p.UID {
			continue
		}
		if len(c.refs("Node")) == 0 {
			return "no Nodes"
		}
		if has[value[string](obj, "metadata", "annotations", names.UnitKey)] {
			return "mistyped"
		}
	}
	return ""
}

// unsure reports whether the time counts from another day for who followed every change,
// as the grid was mended and the child was not seen in its unit since.
func (c *cluster) unsure(p Plan, s Step) bool {
	at, mended := c.mended[p.Grid]
	return mended && c.noted[p.Grid][s.Name].kept < at
}

// certain are the plans without the leftovers of those in which one is not sure, and
// without what follows from when they go; and without those of a grid in which a child that
// is not well does not say since when: that is since it was first seen so.
func (c *cluster) certain(plans []Plan, count map[string]int) []Plan {
	list := slices.DeleteFunc(slices.Clone(plans), func(p Plan) bool {
		return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.live && !s.leaving() && !s.Updated && s.appliedAt.IsZero() })
	})
	for i := range list {
		p := &list[i]
		count["compared"]++
		if !slices.ContainsFunc(p.Steps, func(s Step) bool { return s.leaving() && s.Unit != "" && c.unsure(*p, s) }) {
			continue
		}
		count["compared in part"]++
		p.Steps = slices.DeleteFunc(slices.Clone(p.Steps), Step.leaving)
		p.StatusFirst = false
		status := *p.Workload
		status.LastRemoval = nil
		status.Worst = slices.DeleteFunc(slices.Clone(status.Worst), func(u apiv1.UnitStatus) bool { return u.Reason == "Held" })
		p.Workload = &status
	}
	return list
}

// notePilots notes which units of the order of a rollout have no node and had one: their
// child is there, or was when it was noted last.
func (c *cluster) notePilots(ref Ref) {
	spec := value[Object](c.objects[ref], "spec")
	units, made := map[any]bool{}, map[any]bool{}
	for _, node := range c.refs("Node") {
		if unit := readNode(c.objects[node]).labels[value[string](spec, "gridUniqKey")]; unit != "" {
			units[unit] = true
		}
	}
	for _, child := range c.refs("Deployment", "StatefulSet") {
		if obj := c.objects[child]; value[string](controllerOf(obj), "uid") == value[string](c.objects[ref], "metadata", "uid") {
			made[value[string](obj, "metadata", "annotations", names.Unit)] = true
		}
	}
	if len(units) == 0 && spec["rollout"] != nil {
		return // what was noted stays
	}
	known := map[any]bool{}
	for _, unit := range value[[]any](spec, "rollout", "order") {
		known[unit] = !units[unit] && (made[unit] || c.pilots[ref][unit])
	}
	c.pilots[ref] = known
}

// orderLacks reports whether the order of a rollout names a unit that no node is in and
// that the grid never had, and it is no earlier revision that it goes back to.
func orderLacks(c *cluster, p Plan) bool {
	return !wentBack(c, p) && slices.ContainsFunc(value[[]any](c.objects[p.Grid], "spec", "rollout", "order"), func(unit any) bool {
		return !c.pilots[p.Grid][unit] && !slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Unit == unit && s.Nodes > 0 })
	})
}

// wentBack reports whether the revision of a grid is older than another.
func wentBack(c *cluster, p Plan) bool {
	made := map[string]string{}
	for _, ref := range c.refs("ControllerRevision") {
		if obj := c.objects[ref]; value[string](controllerOf(obj), "uid") == p.UID {
			made[ref.Name] = value[string](obj, "metadata", "creationTimestamp")
		}
	}
	own, known := made[p.Workload.Revision]
	return known && slices.ContainsFunc(slices.Collect(maps.Values(made)), func(at string) bool { return at > own })
}
