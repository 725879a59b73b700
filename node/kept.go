package node

import (
	"cmp"
	"slices"

	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds/render"
)

// mostKept bounds the Services that are kept for the kernel path.
const mostKept = 5000

// kept are the Services that this node needs to serve again: those that Envoy holds
// beforehand, and the near ones that the kernel path has.
func (l *loop) kept() map[topology.ObjectKey]bool {
	kept := map[topology.ObjectKey]bool{}
	for _, name := range l.catalog.Wildcard(render.ClusterType) {
		if entry, ok := l.catalog.Entry(name); ok {
			kept[entry.Service] = true
		}
	}
	if l.cfg.Datapath == topology.DatapathNone {
		return kept
	}
	var list []near
	for key, s := range l.view.Services.All() {
		if render.IsAlways(key) {
			kept[key] = true
		} else if s.Near < topology.RankNone {
			list = append(list, near{key: key, rank: s.Near})
		}
	}
	inTurns(list)
	for _, s := range list[:min(len(list), mostKept)] {
		kept[s.key] = true
	}
	return kept
}

// near is a Service with endpoints in reach of this node.
type near struct {
	key  topology.ObjectKey
	rank topology.Rank
	turn int // how many of its namespace come before it
}

// inTurns sorts so that the first of each namespace come before the second of any: who may
// write Services in one takes the place of nobody else. Of a namespace the nearest are first.
func inTurns(list []near) {
	slices.SortFunc(list, func(a, b near) int { return cmp.Or(cmp.Compare(a.rank, b.rank), a.key.Compare(b.key)) })
	turns := map[string]int{}
	for i := range list {
		space := list[i].key.Namespace
		list[i].turn = turns[space]
		turns[space]++
	}
	slices.SortStableFunc(list, func(a, b near) int { return cmp.Compare(a.turn, b.turn) })
}
