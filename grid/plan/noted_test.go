package plan

import (
	"maps"
	"slices"

	"github.com/gridmesh/gridmesh/api/names"
)

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
