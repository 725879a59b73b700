package topology

import (
	"fmt"
	"net/netip"
	"slices"
)

// mostRanges is what load balancers' ranges may take of every node. All pairs of a Service
// that they guard share one list for each family, whatever their number; it takes an
// entry for each range, and some for itself. While lists are written nothing else is.
const (
	mostRanges = 16384
	ofList     = 8
)

const sourceRanges = "spec.loadBalancerSourceRanges"

// guards are the Services with ranges. Where there is not room for all, namespaces take turns,
// a list at a time: whichever has least with its next one is next, so that who asks for little
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
	cost  [2]int  // of a list, in entries; 0 where everybody may dial
	wants [2]bool // there are pairs of its own
	room  [2]bool // for the list of those
	had   [2]bool // room, before it was given out again
}

// entries are what it takes of a node where it has room.
func (g guard) entries() (n int) {
	for f, wants := range g.wants {
		if wants {
			n += g.cost[f]
		}
	}
	return n
}

// family is the part of a guard that is of an address.
func (p *portion) family(addr netip.Addr) int {
	if addr.Is6() == p.service.ClusterIPs[0].Is6() {
		return 0
	}
	return 1
}

// costs reports what a list of each family takes.
func (p *portion) costs() (of [2]int) {
	if p.service.Exposure == nil {
		return of
	}
	for _, r := range p.service.Exposure.Sources {
		of[p.family(r.Addr())]++
	}
	for f, ranges := range of {
		of[f] += ofList * min(ranges, 1)
	}
	return of
}

// guards reports whether a pair needs a list.
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
	g.count(p, [2]bool{})
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
func (g *guards) count(p *portion, wants [2]bool) {
	if p.guard.wants == wants {
		return
	}
	g.wants -= p.guard.entries()
	p.guard.wants, p.guard.room = wants, wants
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

// guarded reports of which families a Service has pairs that need a list.
func (c *claims) guarded(p *portion) (wants [2]bool) {
	n := 0
	for _, d := range p.service.outside() {
		if n++; n > p.granted {
			break
		}
		if !p.guards(d) || wants[p.family(d.Addr)] {
			continue
		}
		if owner, clusterIP := c.whose(p.service, d.Frontend); owner == p.service.Key && !clusterIP {
			wants[p.family(d.Addr)] = true
		}
	}
	return wants
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
	return fmt.Sprintf("takes %d entries of every node, one for each range and %d for a list of a family, and the cluster has %d, which namespaces take in turns, the eldest Services of each first: %d pairs of a port and an address are served to nobody; "+
		"give fewer ranges, merge neighbouring ranges, or take some from elder Services of namespace %s", p.guard.entries(), ofList, most.ranges, pairs, p.service.Key.Namespace)
}
