package topology

import (
	"fmt"
	"slices"
)

// What a load balancer's ranges may take of every node: each guarded pair has all of
// them, and one for the node itself, in a set of the kernel that all Services share,
// where twice as many cost up to four times as much: 2000 load in 0.15 s, 16,000 in 6 s,
// and go in two to four times that.
const (
	mostRangesOfNamespace = 2048
	mostRangesOfAll       = 8192
)

const sourceRanges = "spec.loadBalancerSourceRanges"

// guards are the Services with ranges. The eldest have room for theirs, and the first
// that has not enough takes what is left: what lacks room is not served, to anybody.
type guards struct {
	list    []*portion // by age
	changed bool
}

// guard is what the ranges of one Service take.
type guard struct {
	wants int  // by the pairs that it was granted
	room  int  // so many of those
	ofAll bool // what lacks lacks for all Services, and not for the namespace's
}

// guardOf are the entries that guard a pair, by family; none where everybody may dial.
func (s *Service) guardOf() (four, six int) {
	if s.Exposure == nil {
		return 0, 0
	}
	for _, p := range s.Exposure.Sources {
		if p.Addr().Is6() {
			six++
		} else {
			four++
		}
	}
	return min(four, 1) + four, min(six, 1) + six
}

// guarded counts the entries of the first so many pairs.
func (s *Service) guarded(pairs int) (n int) {
	four, six := s.guardOf()
	if four+six == 0 {
		return 0
	}
	for _, d := range s.outside() {
		if pairs--; pairs < 0 {
			break
		}
		n += d.guard(four, six)
	}
	return n
}

func (d door) guard(four, six int) int {
	switch {
	case d.kind != LoadBalancer:
		return 0
	case d.Addr.Is6():
		return six
	}
	return four
}

func (g *guards) insert(p *portion) {
	if p.service.Exposure != nil && len(p.service.Exposure.Sources) > 0 {
		g.list, g.changed = slices.Insert(g.list, byAge(g.list, p), p), true
	}
}

func (g *guards) remove(p *portion) {
	if i := byAge(g.list, p); i < len(g.list) && g.list[i] == p {
		g.list, g.changed = slices.Delete(g.list, i, i+1), true
	}
}

// settle finds again who has room, and marks as dirty whom that changes.
func (g *guards) settle(most bounds, dirty set) {
	if !g.changed {
		return
	}
	g.changed = false
	had, all := map[string]int{}, 0
	for _, p := range g.list {
		namespace := p.service.Key.Namespace
		is := guard{wants: p.guard.wants, room: min(p.guard.wants, most.ranges-had[namespace], most.allRanges-all)}
		is.ofAll = is.room < min(is.wants, most.ranges-had[namespace])
		had[namespace] += is.room
		all += is.room
		if p.guard != is {
			p.guard = is
			dirty[p.service.Key] = struct{}{}
		}
	}
}

// whyUnguarded says why so many pairs of a Service lack room for its ranges.
func (p *portion) whyUnguarded(pairs int, most bounds) string {
	whose, bound, use := "namespace "+p.service.Key.Namespace, most.ranges, "take some from elder Services of the namespace, or use another one"
	switch {
	case p.guard.ofAll:
		whose, bound, use = "the cluster", most.allRanges, "take some from elder Services"
	case p.guard.room == most.ranges:
		use = "use another namespace for some"
	}
	return fmt.Sprintf("takes %d entries of every node, ranges times pairs of a port and an address, and %s has %d, the eldest Services first: %d pairs are served to nobody; "+
		"give fewer ranges or ports, merge neighbouring ranges, or %s", p.guard.wants, whose, bound, pairs, use)
}
