package xds

import "github.com/gridmesh/gridmesh/xds/render"

// endpointsOnDemand is how many endpoints there are for each cluster that Envoy may
// ask for by name: 20 KiB of its memory.
const endpointsOnDemand = 10

// wholeCluster is more endpoints than any cluster has.
const wholeCluster = 1 << 30

// parts bounds the endpoints of the clusters that Envoy asked for by name: it never
// gives one back, and one of an endpoint may have a thousand later. What all of them
// have together counts. Where that is too much each has a part, as many endpoints at
// most as any other: who has few keeps all, and nobody goes dark.
//
// A part becomes smaller, by half, and not larger again while the stream lasts: one
// Service that grows and shrinks would else have those of all others sent again
// and again.
type parts struct {
	most int            // endpoints, together; 0: no bound
	part int            // of one cluster, at most
	of   map[string]int // endpoints that clusters asked for by name have
	sum  int            // of those that Envoy gets
}

func newParts(most int) parts { return parts{most: most, part: wholeCluster, of: map[string]int{}} }

// set says how many endpoints a cluster has; 0 of one that counts no more.
func (p *parts) set(name string, n int) {
	p.sum += min(n, p.part) - min(p.of[name], p.part)
	if n == 0 {
		delete(p.of, name)
		return
	}
	p.of[name] = n
}

// fit makes the parts so small that there is room for all, and returns the clusters
// that have more than theirs, where that changed.
func (p *parts) fit() (cut []string) {
	if p.sum <= p.most || p.most == 0 {
		return nil
	}
	for p.sum > p.most && p.part > 1 {
		p.part /= 2
		p.sum = 0
		for _, n := range p.of {
			p.sum += min(n, p.part)
		}
	}
	for name, n := range p.of {
		if n > p.part {
			cut = append(cut, name)
		}
	}
	return cut
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

// resource is what Envoy is to hold of a name.
func (s *subscription) resource(cat *render.Catalog, name string) (render.Resource, bool) {
	if _, counts := s.parts.of[name]; counts && s.parts.size() > 0 {
		return cat.Part(name, s.parts.size()), true
	}
	return cat.Resource(s.typeURL, name)
}
