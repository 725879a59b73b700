package report

import (
	"maps"
	"slices"

	"github.com/gridmesh/gridmesh/api/names"
)

// UnitKeys are the labels of Nodes that have the units of most Leases as values, each on the
// Node that holds the Lease where that is there: one as a rule, SuperEdge's first. Where there
// are no Leases it is SuperEdge's alone, if a Node has it.
func (s *State) UnitKeys() []string {
	labels := map[string]map[string]string{} // of each Node
	values := map[string]map[string]bool{}   // of each label
	for i := range s.Nodes {
		n := &s.Nodes[i]
		labels[n.Name] = n.Labels
		for key, value := range n.Labels {
			if values[key] == nil {
				values[key] = map[string]bool{}
			}
			values[key][value] = true
		}
	}
	leases := s.unitLeases()
	if len(leases) == 0 {
		if values[names.HealthZone] == nil {
			return nil
		}
		return []string{names.HealthZone}
	}
	fitting := func(key string) (n int) {
		for _, l := range leases {
			unit := l.Labels[names.UnitLease]
			if holder, known := labels[holderOf(l)]; known && holder[key] == unit || !known && values[key][unit] {
				n++
			}
		}
		return n
	}
	var keys []string
	most := 1
	for _, key := range slices.Sorted(maps.Keys(values)) {
		switch n := fitting(key); {
		case n > most:
			keys, most = []string{key}, n
		case n == most:
			keys = append(keys, key)
		}
	}
	if i := slices.Index(keys, names.HealthZone); i > 0 {
		keys = slices.Insert(slices.Delete(keys, i, i+1), 0, names.HealthZone)
	}
	return keys
}

// SameUnits reports whether labels divide the Nodes of a state into the same units.
func (s *State) SameUnits(keys []string) bool {
	for i := range s.Nodes {
		for _, key := range keys {
			if s.Nodes[i].Labels[key] != s.Nodes[i].Labels[keys[0]] {
				return false
			}
		}
	}
	return true
}
