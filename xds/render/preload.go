package render

import (
	"cmp"
	"fmt"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/topology"
)

// preloader chooses the clusters that Envoy holds without being asked, so
// that they serve with the agent dead: what the unit offers, nearest first, and
// of what is as near round the namespaces.
//
// What changes costs O(log candidates): with more candidates than room, an
// order of all of them at each change would be most of what the agent does.
type preloader struct {
	max     int
	asked   map[string]shareOwner // those that wait for choose; RankNone ends one
	used    usage
	all     map[string]*candidate
	shares  preloadShares
	was     map[string]bool // cluster that choose touched -> it was chosen
	chosen  int
	always  int // candidates of RankAlways
	overCap int // candidates
}

// candidate is a cluster that may be preloaded.
type candidate struct {
	name   string
	last   int // its place among those in use, 0 for none
	share  *preloadShare
	chosen bool
	at     int // its place in its share's pile
}

// compareCandidates orders those of one turn: that are to be preloaded first
// first.
func compareCandidates(a, b *candidate) int {
	return cmp.Or(cmp.Compare(b.last, a.last), cmp.Compare(a.name, b.name))
}

func newPreloader(most int) *preloader {
	return &preloader{
		max: most, asked: map[string]shareOwner{}, all: map[string]*candidate{},
		shares: newPreloadShares(), was: map[string]bool{},
	}
}

// rankOf returns RankNone for what is fetched on demand only.
func (p *preloader) rankOf(name string, s *topology.ServiceView, f *topology.FrontendView) topology.Rank {
	switch {
	case f.Protocol == topology.UDP:
		return topology.RankNone // udpChooser's
	case f.Path != topology.PathEnvoy:
		return topology.RankNone // the kernel's
	case IsAlways(s.Key):
		return topology.RankAlways
	case s.Near < topology.RankNone:
		return s.Near
	case p.used.has(name):
		return topology.RankUsed
	}
	return topology.RankNone
}

// IsAlways names what every node needs, however far it is.
func IsAlways(key topology.ObjectKey) bool {
	return key == topology.ObjectKey{Namespace: names.DefaultNamespace, Name: names.KubernetesService} ||
		key == topology.ObjectKey{Namespace: names.SystemNamespace, Name: names.DNSService}
}

// set gives a cluster, of a Service in the namespace, its rank, RankNone for no
// candidate, when choose is called next.
func (p *preloader) set(name, namespace string, rank topology.Rank) {
	p.asked[name] = shareOwner{rank, namespace}
}

// setUsed replaces what is in use, the oldest use first. It returns the
// clusters that came or went, whose ranks are to be set anew, and whether the
// others may be chosen differently.
func (p *preloader) setUsed(names []string) (changed []string, anew bool) {
	changed, moved := p.used.set(names)
	for _, name := range moved {
		c, ok := p.all[name]
		if _, waits := p.asked[name]; ok && !waits {
			p.asked[name] = c.share.of
		}
		anew = anew || ok && p.overCap > 0
	}
	return changed, anew
}

// rerank is set, and reports whether choose may choose differently for it.
func (p *preloader) rerank(name, namespace string, rank topology.Rank) bool {
	was := topology.RankNone
	if c, ok := p.all[name]; ok {
		was = c.share.of.rank
	}
	p.set(name, namespace, rank)
	return was != rank || p.overCap > 0 && rank != topology.RankNone
}

// choose returns the clusters that came and went since it was last called.
func (p *preloader) choose() (added, gone []string) {
	for name, owner := range p.asked {
		p.enter(name, owner)
	}
	clear(p.asked)
	room := max(p.max, p.always) // what every node needs is no matter of room
	for c := p.shares.first(); c != nil && p.chosen < room; c = p.shares.first() {
		p.move(c, true)
	}
	for p.chosen > room {
		p.move(p.shares.worst(), false)
	}
	for p.shares.disorder() {
		better, worse := p.shares.first(), p.shares.worst()
		p.move(better, true)
		p.move(worse, false)
	}
	p.overCap = len(p.all) - p.chosen
	for name, was := range p.was {
		c, ok := p.all[name]
		switch is := ok && c.chosen; {
		case is && !was:
			added = append(added, name)
		case was && !is:
			gone = append(gone, name)
		}
	}
	clear(p.was)
	return added, gone
}

// enter makes a candidate what its owner and its use say. One that was chosen
// is so where it comes to, for as long as nobody there belongs before it.
func (p *preloader) enter(name string, owner shareOwner) {
	c, ok := p.all[name]
	last := p.used.last[name]
	switch {
	case !ok && owner.rank == topology.RankNone, ok && c.share.of == owner && c.last == last:
		return
	case ok:
		p.take(c)
		p.shares.forget(c.share)
	default:
		c = &candidate{name: name}
	}
	if owner.rank == topology.RankNone {
		delete(p.all, name)
		return
	}
	p.all[name] = c
	c.share, c.last = p.shares.get(owner), last
	p.put(c, c.chosen)
	for s := c.share; s.disorder(); {
		better, worse := s.others.top(), s.chosen.top()
		p.move(better, true)
		p.move(worse, false)
	}
}

// move makes a candidate one that is chosen, or one that waits.
func (p *preloader) move(c *candidate, chosen bool) {
	p.take(c)
	p.put(c, chosen)
}

// take takes a candidate out of its share.
func (p *preloader) take(c *candidate) {
	if _, ok := p.was[c.name]; !ok {
		p.was[c.name] = c.chosen
	}
	c.share.pile(c.chosen).drop(c)
	p.count(c, -1)
	p.shares.settle(c.share)
}

// put puts a candidate into its share.
func (p *preloader) put(c *candidate, chosen bool) {
	if _, ok := p.was[c.name]; !ok {
		p.was[c.name] = false
	}
	c.chosen = chosen
	c.share.pile(chosen).put(c)
	p.count(c, 1)
	p.shares.settle(c.share)
}

func (p *preloader) count(c *candidate, n int) {
	if c.chosen {
		p.chosen += n
	}
	if c.share.of.rank == topology.RankAlways {
		p.always += n
	}
}

func (p *preloader) problems() []topology.Problem {
	if p.overCap == 0 {
		return nil
	}
	return []topology.Problem{{
		Object: "node", Field: "--preload-max",
		Text: fmt.Sprintf("%d clusters near this node are over the cap of %d and are fetched at their first connection only: they do not survive the death of the agent unused; raise --preload-max (58 KiB of Envoy's memory a cluster of 10 endpoints)", p.overCap, p.max),
	}}
}
