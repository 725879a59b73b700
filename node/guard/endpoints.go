package guard

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/gridmesh/gridmesh/topology"
)

// Endpoints keeps the Services with endpoints in guarded ranges as
// snapshots go by: pods of any node, as they come and go.
type Endpoints struct {
	snap  *topology.Snapshot
	guard []netip.Prefix
	first map[topology.ObjectKey]netip.Addr // of each such Service
	list  []topology.Problem                // what problems said of them
}

// Next takes a snapshot, and the ranges of the flags, which are always the
// same. It costs O(changed).
func (g *Endpoints) Next(snap *topology.Snapshot, flags []netip.Prefix) []topology.Problem {
	if g.first == nil || !slices.Equal(g.snap.ServiceCIDRs, snap.ServiceCIDRs) {
		*g = Endpoints{guard: Merge(flags, snap.ServiceCIDRs), first: map[topology.ObjectKey]netip.Addr{}}
	}
	concerned := false
	for key := range snap.Changed(g.snap) {
		_, was := g.first[key]
		delete(g.first, key)
		concerned = concerned || was
		if entry, ok := snap.Services.Get(key); ok && entry.Service != nil {
			if addr, in := g.inside(entry); in {
				g.first[key], concerned = addr, true
			}
		}
	}
	g.snap = snap
	if concerned {
		g.list = g.problems(flags)
	}
	return g.list
}

func (g *Endpoints) inside(entry *topology.Entry) (netip.Addr, bool) {
	for _, slice := range entry.Slices {
		for i := range slice.Endpoints {
			if g.rangeOf(slice.Endpoints[i].Addr) >= 0 {
				return slice.Endpoints[i].Addr, true
			}
		}
	}
	return netip.Addr{}, false
}

func (g *Endpoints) rangeOf(addr netip.Addr) int {
	return slices.IndexFunc(g.guard, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// problems names one Service of each range.
func (g *Endpoints) problems(flags []netip.Prefix) (list []topology.Problem) {
	count, least := make([]int, len(g.guard)), make([]topology.ObjectKey, len(g.guard))
	for key, addr := range g.first {
		i := g.rangeOf(addr)
		if count[i]++; count[i] == 1 || key.Compare(least[i]) < 0 {
			least[i] = key
		}
	}
	for i := range g.guard {
		if count[i] > 0 {
			list = append(list, g.problem(least[i], flags, i, count[i]-1))
		}
	}
	return list
}

// Problem is what is said of one Service, where its endpoints are in a range.
func (g *Endpoints) Problem(key topology.ObjectKey, flags []netip.Prefix) (topology.Problem, bool) {
	addr, in := g.first[key]
	if !in {
		return topology.Problem{}, false
	}
	i, others := g.rangeOf(addr), -1
	for _, o := range g.first {
		if g.rangeOf(o) == i {
			others++
		}
	}
	return g.problem(key, flags, i, others), true
}

func (g *Endpoints) problem(key topology.ObjectKey, flags []netip.Prefix, i, others int) topology.Problem {
	field, cure := "ServiceCIDR", cureObject
	if slices.Contains(flags, g.guard[i]) {
		field, cure = "--service-cidr", CureFlag
	}
	as := fmt.Sprintf("as those of %d other Services", others)
	if others == 0 {
		as, cure = "as that of no other Service", "correct the endpoint, for no pod has a ClusterIP; where it is right, "+cure
	}
	return topology.Problem{Object: "service " + key.String(), Field: field, Text: fmt.Sprintf(
		"its endpoint %s is in the guarded range %s, %s: who dials such a pod by its own address is refused on this node; %s", g.first[key], g.guard[i], as, cure)}
}

// Merge returns the prefixes of all lists, sorted, each once. It
// leaves the lists as they are.
func Merge(lists ...[]netip.Prefix) []netip.Prefix {
	all := slices.Concat(lists...)
	slices.SortFunc(all, topology.ComparePrefix)
	return slices.Compact(all)
}
