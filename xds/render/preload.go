package render

import (
	"cmp"
	"fmt"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/topology"
)

// preloader chooses the clusters that Envoy holds without being asked, so
// that they serve with the agent dead: what the unit offers, nearest first.
//
// What changes costs O(log candidates): with more candidates than room, an
// order of all of them at each change would be most of what the agent does.
type preloader struct {
	max     int
	rank    map[string]topology.Rank // those that wait for choose; RankNone ends one
	used    usage
	all     map[string]*candidate
	chosen  pile // the last of them on top
	others  pile // the first of them on top
	always  int  // candidates of RankAlways
	overCap int  // candidates
}

// candidate is a cluster that may be preloaded.
type candidate struct {
	name string
	rank topology.Rank
	last int // its place among those in use, 0 for none
	in   *pile
	at   int // its place in that
}

// compareCandidates orders those that are to be preloaded first first.
func compareCandidates(a, b *candidate) int {
	return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.last, a.last), cmp.Compare(a.name, b.name))
}

func newPreloader(most int) *preloader {
	return &preloader{
		max: most, rank: map[string]topology.Rank{}, all: map[string]*candidate{},
		chosen: pile{sign: -1}, others: pile{sign: 1},
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

// set gives a cluster its rank, RankNone for no candidate, when choose is
// called next.
func (p *preloader) set(name string, rank topology.Rank) { p.rank[name] = rank }

// setUsed replaces what is in use, the oldest use first. It returns the
// clusters that came or went, whose ranks are to be set anew, and whether the
// others may be chosen differently.
func (p *preloader) setUsed(names []string) (changed []string, anew bool) {
	changed, moved := p.used.set(names)
	for _, name := range moved {
		c, ok := p.all[name]
		if _, waits := p.rank[name]; ok && !waits {
			p.set(name, c.rank)
		}
		anew = anew || ok && p.overCap > 0
	}
	return changed, anew
}

// rerank is set, and reports whether choose may choose differently for it.
func (p *preloader) rerank(name string, rank topology.Rank) bool {
	was := topology.RankNone
	if c, ok := p.all[name]; ok {
		was = c.rank
	}
	p.set(name, rank)
	return was != rank || p.overCap > 0 && rank != topology.RankNone
}

// choose returns the clusters that came and went since it was last called.
func (p *preloader) choose() (added, gone []string) {
	if len(p.rank) == 0 {
		return nil, nil
	}
	was := map[string]bool{} // cluster that may have moved -> it was chosen
	move := func(c *candidate, to *pile) {
		if _, ok := was[c.name]; !ok {
			was[c.name] = c.in == &p.chosen
		}
		c.moveTo(to)
	}
	for name, rank := range p.rank {
		p.enter(name, rank, move)
	}
	clear(p.rank)
	room := max(p.max, p.always) // what every node needs is no matter of room
	for len(p.chosen.list) < room && len(p.others.list) > 0 {
		move(p.others.top(), &p.chosen)
	}
	for len(p.chosen.list) > room {
		move(p.chosen.top(), &p.others)
	}
	for len(p.chosen.list) > 0 && len(p.others.list) > 0 && compareCandidates(p.others.top(), p.chosen.top()) < 0 {
		better, worse := p.others.top(), p.chosen.top()
		move(better, &p.chosen)
		move(worse, &p.others)
	}
	p.overCap = len(p.others.list)
	for name, was := range was {
		c, ok := p.all[name]
		switch is := ok && c.in == &p.chosen; {
		case is && !was:
			added = append(added, name)
		case was && !is:
			gone = append(gone, name)
		}
	}
	return added, gone
}

// enter makes a candidate what its rank and its use say.
func (p *preloader) enter(name string, rank topology.Rank, move func(*candidate, *pile)) {
	c, ok := p.all[name]
	switch last := p.used.last[name]; {
	case !ok && rank == topology.RankNone, ok && c.rank == rank && c.last == last:
		return
	case !ok:
		c = &candidate{name: name}
		p.all[name] = c
	}
	if c.rank == topology.RankAlways && c.in != nil {
		p.always--
	}
	if rank == topology.RankNone {
		move(c, nil)
		delete(p.all, name)
		return
	}
	if rank == topology.RankAlways {
		p.always++
	}
	in := c.in
	if in == nil {
		in = &p.others
	}
	move(c, nil) // out, before what orders it changes
	c.rank, c.last = rank, p.used.last[name]
	c.moveTo(in)
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
