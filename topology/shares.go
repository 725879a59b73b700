package topology

import (
	"fmt"
	"slices"
)

// What a tenant may add to every node besides ClusterIPs, in pairs of a port and an
// address: addresses times ports may be millions in one object, and objects many
// in one namespace.
const (
	mostOfService   = 4096
	mostOfNamespace = 16384
)

// bounds are those two, and that of the entries of ranges.
type bounds struct{ service, namespace, ranges int }

// share is what the Services of one namespace have besides ClusterIPs. The eldest
// have theirs, until it is what one may have: an elder one that asks for more takes
// it from younger ones, and one that is made later takes nothing. It costs what changes.
type share struct {
	list []*portion // by age
	// The first so many of list have something, and want sum: all that they want,
	// but the last may have less.
	having, sum int
	last        *portion // of those, when it was settled
	fresh       []*portion
	most        bounds
}

// portion is what one Service has besides ClusterIPs.
type portion struct {
	service *Service
	wants   int // of what it asks for, what one Service may have; at least 1
	most    int // of those, what it had where others of its namespace may be missing
	granted int // the first so many of those
	guard   guard
}

// apply asks for what a Service opens besides its ClusterIPs.
func (c *claims) apply(s *Service) {
	p := &portion{service: s}
	if !c.outsideToo || !s.opensOutside() {
		return
	}
	for range s.outside() {
		if p.wants++; p.wants == c.most.service {
			break
		}
	}
	if p.wants == 0 {
		return
	}
	if p.most = p.wants; s.Portion != nil {
		p.most = max(0, min(p.most, *s.Portion))
	}
	namespace := c.shares[s.Key.Namespace]
	if namespace == nil {
		namespace = &share{most: c.most}
		c.shares[s.Key.Namespace] = namespace
	}
	namespace.insert(p)
	c.guards.insert(p)
	c.portions[s.Key], c.touched[s.Key.Namespace] = p, true
}

// withdraw gives back what a Service had.
func (c *claims) withdraw(s *Service) {
	p := c.portions[s.Key]
	if p == nil {
		return
	}
	c.grant(p, 0)
	c.shares[s.Key.Namespace].remove(p)
	c.guards.remove(p)
	delete(c.portions, s.Key)
	c.touched[s.Key.Namespace] = true
}

// grant claims the first so many of what a Service wants, and no more.
func (c *claims) grant(p *portion, to int) {
	from, n := p.granted, 0
	p.granted = to
	if from == to {
		return
	}
	for _, d := range p.service.outside() {
		if n >= max(from, to) {
			return
		}
		if n >= min(from, to) {
			c.doors.change(d.Frontend, claimant{p.service, d.kind}, to > from)
			if d.kind != NodePort {
				c.at.change(d.Addr, claimant{Service: p.service}, to > from)
			}
		}
		n++
	}
}

func (s *share) insert(p *portion) {
	i := byAge(s.list, p)
	s.list = slices.Insert(s.list, i, p)
	s.fresh = append(s.fresh, p)
	if i < s.having {
		s.having++
		s.sum += p.wants
	}
}

func (s *share) remove(p *portion) {
	i := byAge(s.list, p)
	s.list = slices.Delete(s.list, i, i+1)
	if i < s.having {
		s.having--
		s.sum -= p.wants
	}
	if s.last == p {
		s.last = nil
	}
}

// byAge is where a portion is among those that are ordered by age, or belongs.
func byAge(list []*portion, p *portion) int {
	i, _ := slices.BinarySearchFunc(list, p, func(a, b *portion) int { return a.service.CompareAge(b.service) })
	return i
}

// settle finds again who has something, and returns whose part that may change.
func (s *share) settle() (concerned []*portion) {
	concerned = s.fresh
	if s.last != nil {
		concerned = append(concerned, s.last)
	}
	for s.having > 0 && s.sum-s.list[s.having-1].wants >= s.most.namespace {
		s.having--
		s.sum -= s.list[s.having].wants
		concerned = append(concerned, s.list[s.having])
	}
	for s.having < len(s.list) && s.sum < s.most.namespace {
		s.sum += s.list[s.having].wants
		concerned = append(concerned, s.list[s.having])
		s.having++
	}
	s.fresh, s.last = nil, nil
	if s.having > 0 {
		s.last = s.list[s.having-1]
		concerned = append(concerned, s.last)
	}
	return slices.DeleteFunc(concerned, func(p *portion) bool { return s.of(p) == p.granted })
}

// of is what a Service may have.
func (s *share) of(p *portion) int {
	switch {
	case s.last == nil || p.service.CompareAge(s.last.service) > 0:
		return 0
	case p == s.last:
		return min(p.most, s.most.namespace-(s.sum-p.wants))
	}
	return p.most
}

// why says why a Service has no more than its portion.
func (p *portion) why(most bounds) string {
	if p.granted == most.service {
		return fmt.Sprintf("has more than %d pairs of a port and an address besides its ClusterIPs, and the rest of them is not served; use more Services", most.service)
	}
	return fmt.Sprintf("namespace %s has more than %d pairs of a port and an address besides ClusterIPs, and elder Services keep theirs: of this one %d are served, and the rest is not; "+
		"take addresses or ports from Services of the namespace, or use another one", p.service.Key.Namespace, most.namespace, p.granted)
}
