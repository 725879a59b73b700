package node

import (
	"fmt"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

// One namespace with thousands of near Services takes no other one's place in the last good
// state, however near they are; of each the nearest come first.
func TestNamespacesAreKeptInTurns(t *testing.T) {
	var list []near
	add := func(namespace string, n int, rank topology.Rank) {
		for i := range n {
			list = append(list, near{key: topology.ObjectKey{Namespace: namespace, Name: fmt.Sprintf("s%05d", i)}, rank: rank})
		}
	}
	add("tenant", 3*mostKept, topology.RankFirst)
	add("web", 50, topology.RankShared)
	add("zone", 1, topology.RankShared)
	add("zone2", 1, topology.RankFirst)
	inTurns(list)
	kept := map[string]int{}
	for _, s := range list[:mostKept] {
		kept[s.key.Namespace]++
	}
	if want := map[string]int{"tenant": mostKept - 52, "web": 50, "zone": 1, "zone2": 1}; fmt.Sprint(kept) != fmt.Sprint(want) {
		t.Errorf("kept are %v, want %v", kept, want)
	}
	if list[0].key.Namespace != "tenant" || list[1].key.Namespace != "zone2" || list[2].rank != topology.RankShared {
		t.Errorf("the nearest of the first turn are not first: %v", list[:4])
	}
}
