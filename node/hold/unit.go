package hold

import (
	"slices"

	"github.com/gridmesh/gridmesh/topology"
)

// keyless are the Services without keys of a namespace: they have the units of
// its other Services. What one namespace writes is never a reason to hold more
// in another.
type keyless string

// units says which nodes are in the unit of a node, by Service.
type units struct {
	nodes     *topology.Snapshot
	node      string
	own       map[string]string // labels of the node, empty ones left out
	namespace map[keyless][]string
}

func newUnits(s *topology.Snapshot, node string) *units {
	u := &units{nodes: s, node: node, own: map[string]string{}, namespace: map[keyless][]string{}}
	if n, ok := s.Nodes.Get(node); ok {
		for key, value := range n.Labels {
			if value != "" { // an empty value is no unit
				u.own[key] = value
			}
		}
	}
	for key, e := range s.Services.All() {
		for _, label := range ownKeys(e) {
			if in := keyless(key.Namespace); !slices.Contains(u.namespace[in], label) {
				u.namespace[in] = append(u.namespace[in], label)
			}
		}
	}
	return u
}

// ownKeys are the labels that make a Service's units.
func ownKeys(e *topology.Entry) []string {
	switch {
	case e.Service == nil:
		return nil
	case len(e.Keys().List) > 0:
		return e.Keys().List
	case e.Service.GridKey != "":
		return []string{e.Service.GridKey}
	}
	return nil
}

// keys are the labels whose values an endpoint's node must share with ours.
func (u *units) keys(key topology.ObjectKey, e *topology.Entry) []string {
	if list := ownKeys(e); len(list) > 0 {
		return list
	}
	if e.Keys().Mode == topology.Malformed {
		return nil // it is closed to the node
	}
	return u.namespace[keyless(key.Namespace)]
}

// near reports whether a node is in our unit, as these keys have it.
func (u *units) near(node string, keys []string) bool {
	if node == u.node {
		return true
	}
	n, ok := u.nodes.Nodes.Get(node)
	return ok && slices.ContainsFunc(keys, func(key string) bool { return u.own[key] != "" && n.Labels[key] == u.own[key] })
}

// size is how many nodes are in the unit as any of the keys in use has it: as
// many agents may hold what is on a node.
func (u *units) size() int {
	var used []string
	for _, list := range u.namespace {
		for _, key := range list {
			if u.own[key] != "" && !slices.Contains(used, key) {
				used = append(used, key)
			}
		}
	}
	count := 0
	for name := range u.nodes.Nodes.All() {
		if u.near(name, used) {
			count++
		}
	}
	return max(1, count)
}
