package xds

import "github.com/gridmesh/gridmesh/xds/render"

// endpointsOnDemand is how many endpoints there are for each cluster that Envoy may
// ask for by name: 20 KiB of its memory.
const endpointsOnDemand = 10

// wholeCluster is more endpoints than any cluster has.
const wholeCluster = 1 << 29

// restTicks is for how long there has to be room before parts become larger: a
// minute of the stream's ticks.
const restTicks = 6

// parts bounds the endpoints of the clusters that Envoy asked for by name: it never
// gives one back, and one of an endpoint may have a thousand later. What all of them
// have together counts. Where that is too much each has a part, as many endpoints at
// most as any other: who has few keeps all, and nobody goes dark.
//
// A part becomes smaller at once, by half, and larger when all would have had no more
// than three quarters of the bound for a minute: one Service that grows and shrinks
// has those of the others sent again once a minute at most.
type parts struct {
	most   int            // endpoints, together; 0: no bound
	part   int            // of one cluster, at most
	of     map[string]int // endpoints that clusters asked for by name have
	sum    int            // of those that Envoy gets
	larger int            // what sum would be if a part were twice as large
	cut    int            // clusters that have more than a part
	rested int            // ticks for which there was room for larger ones
}

func newParts(most int) parts { return parts{most: most, part: wholeCluster, of: map[string]int{}} }

// set says how many endpoints a cluster has; 0 of one that counts no more.
func (p *parts) set(name string, n int) {
	p.count(p.of[name], -1)
	p.count(n, 1)
	if n == 0 {
		delete(p.of, name)
	} else {
		p.of[name] = n
	}
	if !p.roomy() {
		p.rested = 0
	}
}

// count adds a cluster of so many endpoints, or takes it away.
func (p *parts) count(n, sign int) {
	p.sum += sign * min(n, p.part)
	p.larger += sign * min(n, 2*p.part)
	if n > p.part {
		p.cut += sign
	}
}

// roomy reports whether parts could be larger, and some were left for who grows.
func (p *parts) roomy() bool { return p.larger <= p.most-p.most/4 }

// resize makes a part so large, and returns the clusters of which Envoy gets
// more or less for it.
func (p *parts) resize(part int) (changed []string) {
	least := min(p.part, part)
	p.part, p.sum, p.larger, p.cut = part, 0, 0, 0
	for name, n := range p.of {
		p.count(n, 1)
		if n > least {
			changed = append(changed, name)
		}
	}
	return changed
}

// fit makes the parts so small that there is room for all, and returns the clusters
// that have more than theirs, where that changed.
func (p *parts) fit() (cut []string) {
	for p.most > 0 && p.sum > p.most && p.part > 1 {
		cut = p.resize(p.part / 2)
	}
	return cut
}

// tick makes the parts larger where there has been room for that long enough, and
// returns the clusters that have more of theirs now.
func (p *parts) tick() (grown []string) {
	if p.part == wholeCluster || !p.roomy() {
		return nil
	}
	if p.rested++; p.rested < restTicks {
		return nil
	}
	p.rested = 0
	grown = p.resize(2 * p.part)
	if p.cut == 0 {
		p.resize(wholeCluster)
	}
	return grown
}

// size is how many endpoints a cluster has at most; 0 where it has all of its own.
func (p *parts) size() int {
	if p.part == wholeCluster {
		return 0
	}
	return p.part
}

// measure looks at how many endpoints a name has that Envoy asked for. What is
// preloaded is bounded by that.
func (s *subscription) measure(cat *render.Catalog, name string) {
	if s.parts.most == 0 {
		return
	}
	n := 0
	if s.names[name] && !cat.Preloaded(name) {
		n = cat.EndpointsOf(name)
	}
	s.parts.set(name, n)
}

// markResized marks the names whose part is another, once nothing else is to be sent:
// a connection waits for what was asked for, a second at most, and for those nobody
// does. Until then Envoy holds one part more than it should.
func (s *subscription) markResized(cat *render.Catalog) (any bool) {
	if len(s.resized) == 0 || len(s.pending)+len(s.oneByOne) > 0 {
		return false
	}
	for _, name := range s.resized {
		s.mark(cat, name, false)
	}
	s.resized = nil
	return true
}

// resource is what Envoy is to hold of a name.
func (s *subscription) resource(cat *render.Catalog, name string) (render.Resource, bool) {
	if _, counts := s.parts.of[name]; counts && s.parts.size() > 0 {
		return cat.Part(name, s.parts.size()), true
	}
	return cat.Resource(s.typeURL, name)
}
