package render

import (
	"cmp"
	"fmt"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/topology"
)

// endpointsOfPlace is how many endpoints of a cluster take one place of what is
// preloaded. An endpoint costs Envoy 2 KiB and a cluster 30, so that clusters alone
// bound nothing; one of more endpoints than these takes several places.
const endpointsOfPlace = 40

// preloader chooses the clusters that Envoy holds without being asked, so
// that they serve with the agent dead: what the unit offers, nearest first, and
// of what is as near round the namespaces, by the places that they take. What is
// beyond half of all places for one namespace comes after what is everybody else's, and
// in a keyed tier or in none as well. What was near and is idle since comes after all.
//
// What is chosen is the longest beginning of that order that has room. One that
// takes more than a quarter of it is never chosen, so that none keeps all behind
// it from more than that.
//
// What changes costs O(log candidates): with more candidates than room, an
// order of all of them at each change would be most of what the agent does.
type preloader struct {
	max     int            // places
	asked   map[string]bid // those that wait for choose; RankNone ends one
	used    usage
	all     map[string]*candidate
	shares  preloadShares
	was     map[string]bool // cluster that choose touched -> it was chosen
	chosen  int             // candidates
	taken   int             // places of those
	always  int             // places of candidates of RankAlways
	big     map[string]bool // clusters that would be candidates, but for their size
	waiting int             // candidates, and big ones, that are not chosen
	idle    int             // those of waiting that have rankHeld
}

// rankHeld is a cluster that was near, and that nobody has used since: it comes after all
// others. No view gives it, and topology.RankNone is no candidate's.
const rankHeld = topology.RankNone + 1

// bid is in which namespace a cluster is a candidate, how near it is, and how many
// places it takes.
type bid struct {
	namespace string
	rank      topology.Rank
	places    int
}

var noBid = bid{rank: topology.RankNone}

// candidate is a cluster that may be preloaded.
type candidate struct {
	name   string
	rank   topology.Rank
	last   int // its place among those in use, 0 for none
	places int // that it takes, at least 1
	share  *preloadShare
	chosen bool
	at     int // its place in its share's pile
}

// compareCandidates orders those of one namespace: that are to be preloaded first
// first.
func compareCandidates(a, b *candidate) int {
	return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.last, a.last), cmp.Compare(a.name, b.name))
}

func newPreloader(most int) *preloader {
	return &preloader{
		max: most, asked: map[string]bid{}, all: map[string]*candidate{}, used: usage{fallen: map[string]bool{}},
		shares: newPreloadShares((most + 1) / 2), was: map[string]bool{}, big: map[string]bool{},
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
	}
	if p.holdsNear(name) {
		// Who uses it is refused nothing now, nor with the agent dead, where there is room.
		p.used.fallen[name] = true
	}
	switch {
	case p.used.has(name):
		return topology.RankUsed
	case p.used.holds(name):
		return rankHeld
	}
	return topology.RankNone
}

// holdsNear reports whether Envoy holds a cluster because it was near until now.
func (p *preloader) holdsNear(name string) bool {
	c := p.all[name]
	return c != nil && c.chosen && c.rank < topology.RankUsed
}

// IsAlways names what every node needs, however far it is.
func IsAlways(key topology.ObjectKey) bool {
	return key == topology.ObjectKey{Namespace: names.DefaultNamespace, Name: names.KubernetesService} ||
		key == topology.ObjectKey{Namespace: names.SystemNamespace, Name: names.DNSService}
}

// bidOf is what a frontend, whose cluster has the name, is a candidate for.
func (p *preloader) bidOf(name string, s *topology.ServiceView, f *topology.FrontendView) bid {
	return bid{s.Key.Namespace, p.rankOf(name, s, f), placesOf(endpointsOf(f))}
}

// placesOf is how many places a cluster takes.
func placesOf(endpoints int) int { return max(1, (endpoints+endpointsOfPlace-1)/endpointsOfPlace) }

// set has a cluster be a candidate, or none with RankNone, when choose is called next.
func (p *preloader) set(name string, b bid) { p.asked[name] = b }

// setUsed replaces what is idle and what is in use, the oldest use first. It returns the
// clusters whose ranks are to be set anew, and whether the others may be chosen differently.
func (p *preloader) setUsed(idle, used []string) (changed []string, anew bool) {
	changed, moved := p.used.set(idle, used)
	for _, name := range moved {
		c, ok := p.all[name]
		if _, waits := p.asked[name]; ok && !waits {
			p.asked[name] = bid{c.share.namespace, c.rank, c.places}
		}
		anew = anew || ok && p.waiting > 0
	}
	return changed, anew
}

// rerank is set, and reports whether choose may choose differently for it.
func (p *preloader) rerank(name string, b bid) bool {
	was := topology.RankNone
	if c, ok := p.all[name]; ok {
		was = c.rank
	}
	p.set(name, b)
	return was != b.rank || p.waiting > 0 && b.rank != topology.RankNone
}

// choose returns the clusters that came and went since it was last called.
func (p *preloader) choose() (added, gone []string) {
	for name, b := range p.asked {
		p.enter(name, b)
	}
	clear(p.asked)
	room := max(p.max, p.always) // what every node needs is no matter of room
	for p.shares.disorder() {    // until those that are chosen are a beginning of the order
		better, worse := p.shares.first(), p.shares.worst()
		p.move(better, true)
		p.move(worse, false)
	}
	for p.taken > room {
		p.move(p.shares.worst(), false)
	}
	for c := p.shares.first(); c != nil && p.taken+c.places <= room; c = p.shares.first() {
		p.move(c, true)
	}
	p.waiting = len(p.all) - p.chosen + len(p.big)
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

// enter makes a candidate what its bid and its use say. One that was chosen
// is so where it comes to, for as long as nobody there belongs before it.
func (p *preloader) enter(name string, b bid) {
	c, ok := p.all[name]
	last := p.used.last[name]
	delete(p.big, name)
	if b.rank != topology.RankAlways && b.rank != topology.RankNone && b.places > max(1, p.max/4) {
		if b.rank != rankHeld {
			p.big[name] = true
		}
		b = noBid
	}
	switch {
	case !ok && b.rank == topology.RankNone, ok && c.share.namespace == b.namespace && c.rank == b.rank && c.places == b.places && c.last == last:
		return
	case ok:
		p.take(c)
		p.shares.forget(c.share)
	default:
		c = &candidate{name: name}
	}
	if b.rank == topology.RankNone {
		delete(p.all, name)
		return
	}
	p.all[name] = c
	c.share, c.rank, c.places, c.last = p.shares.get(b.namespace), b.rank, b.places, last
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
		p.taken += n * c.places
		c.share.taken += n * c.places
	}
	switch {
	case c.rank == topology.RankAlways:
		p.always += n * c.places
	case c.rank == rankHeld && !c.chosen:
		p.idle += n
	}
}

// overCap is how many have no place, but for those that nobody would miss.
func (p *preloader) overCap() int { return p.waiting - p.idle }

func (p *preloader) problems() []topology.Problem {
	if p.overCap() == 0 {
		return nil
	}
	return []topology.Problem{{
		Object: "node", Field: "--preload-max",
		Text: fmt.Sprintf("%d clusters near this node are over the cap of %d, of which one takes a place for each %d endpoints, and a quarter at most, and are fetched at their first connection only: "+
			"they do not survive the death of the agent unused; raise --preload-max (58 KiB of Envoy's memory a cluster of 10 endpoints)", p.overCap(), p.max, endpointsOfPlace),
	}}
}
