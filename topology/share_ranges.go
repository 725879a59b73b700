package topology

import (
	"fmt"
	"net/netip"
	"slices"
)

// mostRanges is what load balancers' ranges may take of every node: each guarded pair has
// all of them, and one for the node itself, in a set of the kernel that all Services share,
// where twice as many cost up to four times as much: 2000 load in 0.15 s, 16,000 in 6 s,
// and go in two to four times that.
const mostRanges = 8192

const sourceRanges = "spec.loadBalancerSourceRanges"

// guards are the Services with ranges. Where there is not room for all, namespaces take turns,
// a pair at a time: whichever has least with its next one is next, so that who asks for little
// has it, whatever others want. In a namespace the eldest come first. What finds no room takes
// none, and is not served, to anybody.
type guards struct {
	of      map[string]*turn // by namespace
	wants   int              // entries of all of them
	changed bool
	short   bool // there is not room for all
}

// guard is what the ranges of one Service take: of the family of its first ClusterIP, and of
// the other.
type guard struct {
	cost  [2]int // of a pair, in entries; 0 where everybody may dial
	wants [2]int // pairs, of those that are its own
	room  [2]int // for so many of those
	had   [2]int // room, before it was given out again
}

func (g guard) entries() int { return g.cost[0]*g.wants[0] + g.cost[1]*g.wants[1] }

// family is the part of a guard that is of an address.
func (p *portion) family(addr netip.Addr) int {
	if addr.Is6() == p.service.ClusterIPs[0].Is6() {
		return 0
	}
	return 1
}

// costs reports what guards a pair of each family.
func (p *portion) costs() (of [2]int) {
	if p.service.Exposure == nil {
		return of
	}
	for _, r := range p.service.Exposure.Sources {
		of[p.family(r.Addr())]++
	}
	return [2]int{of[0] + min(of[0], 1), of[1] + min(of[1], 1)}
}

// guards reports whether a pair takes room.
func (p *portion) guards(d door) bool {
	return d.kind == LoadBalancer && p.guard.cost[p.family(d.Addr)] > 0
}

func (g *guards) insert(p *portion) {
	if p.guard.cost = p.costs(); p.guard.cost == [2]int{} {
		return
	}
	t := g.of[p.service.Key.Namespace]
	if t == nil {
		t = &turn{}
		g.of[p.service.Key.Namespace] = t
	}
	t.list = slices.Insert(t.list, byAge(t.list, p), p)
}

func (g *guards) remove(p *portion) {
	if p.guard.cost == [2]int{} {
		return
	}
	g.count(p, [2]int{})
	t := g.of[p.service.Key.Namespace]
	i := byAge(t.list, p)
	if t.list = slices.Delete(t.list, i, i+1); len(t.list) == 0 {
		delete(g.of, p.service.Key.Namespace)
	}
}

// all are those Services.
func (g *guards) all(yield func(*portion) bool) {
	for _, t := range g.of {
		for _, p := range t.list {
			if !yield(p) {
				return
			}
		}
	}
}

// count takes note of what a Service wants now.
func (g *guards) count(p *portion, pairs [2]int) {
	if p.guard.wants == pairs {
		return
	}
	g.wants -= p.guard.entries()
	p.guard.wants, p.guard.room = pairs, pairs
	g.wants += p.guard.entries()
	g.changed = true
}

// settleGuards finds again who has room, once it is known whose is what. Whose pairs changed
// hands is dirty, so nobody else is counted.
func (c *claims) settleGuards(dirty set) {
	for key := range dirty {
		if p := c.portions[key]; p != nil && p.guard.cost != [2]int{} {
			c.guards.count(p, c.guarded(p))
		}
	}
	c.guards.settle(c.most.ranges, dirty)
}

// guarded counts the pairs of a Service that take room.
func (c *claims) guarded(p *portion) (pairs [2]int) {
	n, seen := 0, map[Frontend]bool{}
	for _, d := range p.service.outside() {
		if n++; n > p.granted {
			break
		}
		if !p.guards(d) || seen[d.Frontend] {
			continue
		}
		if owner, clusterIP := c.whose(p.service, d.Frontend); owner == p.service.Key && !clusterIP {
			seen[d.Frontend] = true
			pairs[p.family(d.Addr)]++
		}
	}
	return pairs
}

// settle marks as dirty who has other room than before. While there is room for all, as nearly
// always, nobody else is looked at.
func (g *guards) settle(most int, dirty set) {
	was, changed := g.short, g.changed
	g.short, g.changed = g.wants > most, false
	if !changed || !was && !g.short {
		return
	}
	for p := range g.all {
		p.guard.had, p.guard.room = p.guard.room, p.guard.wants
	}
	if g.short {
		deal(g.of, most)
	}
	for p := range g.all {
		if p.guard.room != p.guard.had {
			dirty[p.service.Key] = struct{}{}
		}
	}
}

// whyUnguarded says why so many pairs of a Service lack room for its ranges.
func (p *portion) whyUnguarded(pairs int, most bounds) string {
	return fmt.Sprintf("takes %d entries of every node, ranges times pairs of a port and an address, and the cluster has %d, which namespaces take in turns, the eldest Services of each first: %d pairs are served to nobody; "+
		"give fewer ranges or ports, merge neighbouring ranges, or take some from elder Services of namespace %s", p.guard.entries(), most.ranges, pairs, p.service.Key.Namespace)
}
