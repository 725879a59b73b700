package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gridmesh/gridmesh/topology"
)

// Review finds what is likely to be a mistake in grids before they are applied:
// what a plan passes over because it may yet become right, as a unit that no
// node has, and what else only the API server would say.
func Review(w World) []topology.Problem {
	x := indexOf(w)
	var list []topology.Problem
	for _, obj := range w.Grids {
		list = append(list, Fields(obj)...)
	}
	for _, ref := range x.Grids() {
		g := x.grids[ref]
		switch {
		case !g.valid || g.deleting:
		case g.kind.PerUnit:
			list = append(list, x.missingUnits(g, len(w.Nodes))...)
		default:
			list = append(list, g.badPorts()...)
		}
	}
	return list
}

// missingUnits are units of a grid that no node is in.
func (x *Index) missingUnits(g *tracked, nodes int) []topology.Problem {
	units := x.units.of(g.unitKey)
	switch {
	case nodes == 0:
		return []topology.Problem{g.problem("", "makes nothing, for there are no Nodes here; add those of the cluster (kubectl get nodes -o yaml), or ask it (--kubeconfig)")}
	case len(units) == 0:
		return []topology.Problem{g.problem("spec.gridUniqKey", "makes nothing, for no node has the label %s; label the nodes, or correct the key", g.unitKey)}
	}
	var list []topology.Problem
	unknown := func(field string, names []string) {
		if names = slices.DeleteFunc(names, func(unit string) bool { return units[unit] != nil }); len(names) > 0 {
			list = append(list, g.problem(field, "names unit %s, of which there is no node (%s is the label); correct it, or label the nodes first", Short(names), g.unitKey))
		}
	}
	if g.waves != nil {
		unknown("spec.rollout.order", slices.Sorted(maps.Keys(g.waves.place)))
	}
	unknown("spec.templates", slices.Sorted(maps.Keys(g.spec.Templates)))
	return list
}

// The node ports of an API server without --service-node-port-range.
const firstNodePort, lastNodePort = 30000, 32767

// badPorts are ports that an API server would refuse of the grid's Service.
func (g *tracked) badPorts() (list []topology.Problem) {
	template := g.templates[g.fallback()].spec
	kind := value[string](template, "type")
	for i, item := range value[[]any](template, "ports") {
		port, _ := item.(Object)
		at := fmt.Sprintf("spec.template.ports[%d].", i)
		if n := integer(port, 0, "port"); n < 1 || n > 65535 {
			list = append(list, g.problem(at+"port", "%v is no port; give a number from 1 to 65535", port["port"]))
		}
		n := integer(port, 0, "nodePort")
		switch {
		case port["nodePort"] == nil || n == 0:
		case kind != "NodePort" && kind != "LoadBalancer":
			list = append(list, g.problem(at+"nodePort", "%d is for Services of type NodePort or LoadBalancer; leave it out, or set spec.template.type", n))
		case n < firstNodePort || n > lastNodePort:
			list = append(list, g.problem(at+"nodePort", "%d is not within %d-%d, the range of an API server without --service-node-port-range", n, firstNodePort, lastNodePort))
		}
	}
	return list
}
