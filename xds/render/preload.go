package render

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/topology"
)

// preloader chooses the clusters that Envoy holds without being asked, so
// that they serve with the agent dead: what the unit offers, nearest first.
type preloader struct {
	max     int
	rank    map[string]topology.Rank // candidate cluster -> rank
	used    usage
	chosen  map[string]bool
	overCap int // candidates
	stale   bool
}

func newPreloader(most int) *preloader {
	return &preloader{max: most, rank: map[string]topology.Rank{}, chosen: map[string]bool{}, stale: true}
}

// rankOf returns RankNone for what is fetched on demand only.
func (p *preloader) rankOf(name string, s *topology.ServiceView, f *topology.FrontendView) topology.Rank {
	switch {
	case f.Protocol == topology.UDP:
		return topology.RankNone // udpChooser's
	case isAlways(s.Key):
		return topology.RankAlways
	case s.Near < topology.RankNone:
		return s.Near
	case p.used.has(name):
		return topology.RankUsed
	}
	return topology.RankNone
}

func isAlways(key topology.ObjectKey) bool {
	return key == topology.ObjectKey{Namespace: names.DefaultNamespace, Name: names.KubernetesService} ||
		key == topology.ObjectKey{Namespace: names.SystemNamespace, Name: names.DNSService}
}

func (p *preloader) set(name string, rank topology.Rank) {
	if old, had := p.rank[name]; had && old == rank || !had && rank == topology.RankNone {
		return
	}
	p.stale = true
	if rank == topology.RankNone {
		delete(p.rank, name)
	} else {
		p.rank[name] = rank
	}
}

// choose returns the clusters that came and went since it was last called.
func (p *preloader) choose() (added, gone []string) {
	if !p.stale {
		return nil, nil
	}
	p.stale = false
	list := make([]string, 0, len(p.rank))
	for name := range p.rank {
		list = append(list, name)
	}
	if len(list) > p.max {
		slices.SortFunc(list, func(a, b string) int {
			return cmp.Or(cmp.Compare(p.rank[a], p.rank[b]), cmp.Compare(p.used.last[b], p.used.last[a]), cmp.Compare(a, b))
		})
		n := p.max
		for n < len(list) && p.rank[list[n]] == topology.RankAlways {
			n++ // what every node needs is no matter of room
		}
		list = list[:n]
	}
	p.overCap = len(p.rank) - len(list)
	next := make(map[string]bool, len(list))
	for _, name := range list {
		next[name] = true
		if !p.chosen[name] {
			added = append(added, name)
		}
	}
	for name := range p.chosen {
		if !next[name] {
			gone = append(gone, name)
		}
	}
	p.chosen = next
	return added, gone
}

func (p *preloader) problems() []topology.Problem {
	if p.overCap == 0 {
		return nil
	}
	return []topology.Problem{{
		Object: "node", Field: "--preload-max",
		Text: fmt.Sprintf("%d clusters near this node are over the cap of %d and are fetched at their first connection only: they do not survive the death of the agent unused; raise --preload-max (54 KiB of Envoy's memory a cluster of 10 endpoints)", p.overCap, p.max),
	}}
}
