package topology

import (
	"cmp"
	"net/netip"
	"slices"
)

// claims are which Services ask for an address or frontend. Whose is one that
// several ask for is the eldest's, also where that one asks later; one that is made
// later takes nothing from it. Of who asks for one that changed hands the first are
// evaluated again, who are told whose it is, and nobody else: thousands may ask.
type claims struct {
	clusterIPs queues[netip.Addr]
	doors      queues[Frontend]   // besides those of ClusterIPs
	at         queues[netip.Addr] // who has doors at an address, but node ports, once for each

	outsideToo bool // doors are asked for
	most       bounds
	shares     map[string]*share
	portions   map[ObjectKey]*portion
	touched    map[string]bool // namespaces of shares that changed
	guards     guards
}

func newClaims(opts Options) *claims {
	return &claims{
		clusterIPs: newQueues[netip.Addr](), doors: newQueues[Frontend](), at: newQueues[netip.Addr](),
		outsideToo: opts.outside() || opts.Owners, most: bounds{mostOfService, mostOfNamespace, mostRanges},
		shares: map[string]*share{}, portions: map[ObjectKey]*portion{}, touched: map[string]bool{}, guards: guards{of: map[string]*turn{}},
	}
}

// change replaces what a Service asks for; was and is may be nil. The order of
// changes does not matter; settle ends them.
func (c *claims) change(was, is *Service) {
	if was == is {
		return
	}
	if was != nil {
		for _, ip := range was.ClusterIPs {
			c.clusterIPs.change(ip, claimant{Service: was}, false)
		}
		c.withdraw(was)
	}
	if is != nil {
		for _, ip := range is.ClusterIPs {
			c.clusterIPs.change(ip, claimant{Service: is}, true)
		}
		c.apply(is)
	}
}

// settle marks as dirty whom the changes concern.
func (c *claims) settle(dirty set) {
	for namespace := range c.touched {
		for _, p := range c.shares[namespace].settle() {
			c.grant(p, c.shares[namespace].of(p))
			dirty[p.service.Key] = struct{}{}
		}
		if len(c.shares[namespace].list) == 0 {
			delete(c.shares, namespace)
		}
	}
	c.touched = map[string]bool{}
	for _, ip := range c.clusterIPs.changedHands(dirty) {
		for _, o := range c.at.of[ip] {
			dirty[o.Key] = struct{}{}
		}
	}
	c.doors.changedHands(dirty)
	c.at.before = nil
	c.settleGuards(dirty)
}

// clusterIP is the owner of a ClusterIP, which is believed before what Services
// claim besides.
func (c *claims) clusterIP(ip netip.Addr) (owner ObjectKey, is bool) {
	list := c.clusterIPs.of[ip]
	return first(list), len(list) > 0
}

// outside is the owner of a frontend besides those of ClusterIPs: of those that
// claim it for the best reason the eldest.
func (c *claims) outside(f Frontend) ObjectKey { return first(c.doors.of[f]) }

// claimant is a Service that asks for something.
type claimant struct {
	*Service
	kind OutsideKind
}

func (c claimant) compare(o claimant) int {
	return cmp.Or(cmp.Compare(c.kind, o.kind), c.CompareAge(o.Service))
}

// CompareAge orders Services by age, the eldest first, and those of unknown age last:
// a manifest that is about to be applied takes nothing from what exists. Those of one
// second, and of unknown age, are ordered by name.
func (s *Service) CompareAge(o *Service) int {
	unknown := func(s *Service) int { return cmp.Compare(0, s.Created) + 1 }
	return cmp.Or(cmp.Compare(unknown(s), unknown(o)), cmp.Compare(s.Created, o.Created), s.Key.Compare(o.Key))
}

// mostNamed is how many of who asks for one thing are told whose it is, its owner among
// them. To those behind them it makes no difference who is before.
const mostNamed = 8

// queues are who asks for each of many things, its owner first.
type queues[K comparable] struct {
	of     map[K][]claimant
	before map[K][]ObjectKey // the first of those that were touched, when that began
	named  int               // mostNamed, or less in tests
}

func newQueues[K comparable]() queues[K] {
	return queues[K]{of: map[K][]claimant{}, named: mostNamed}
}

// head are the first who ask for k, who are told whose it is.
func (q *queues[K]) head(k K) []claimant {
	list := q.of[k]
	return list[:min(len(list), q.named)]
}

// tells reports whether a Service is one of these.
func (q *queues[K]) tells(k K, s ObjectKey) bool {
	return slices.ContainsFunc(q.head(k), func(c claimant) bool { return c.Key == s })
}

// change adds a claimant of k, or takes it away; one that asks twice is there twice.
func (q *queues[K]) change(k K, c claimant, add bool) {
	list := q.of[k]
	if q.before == nil {
		q.before = map[K][]ObjectKey{}
	}
	if _, noted := q.before[k]; !noted {
		var head []ObjectKey
		for _, c := range q.head(k) {
			head = append(head, c.Key)
		}
		q.before[k] = head
	}
	i, _ := slices.BinarySearchFunc(list, c, claimant.compare)
	switch {
	case add:
		q.of[k] = slices.Insert(list, i, c)
	case len(list) == 1:
		delete(q.of, k)
	default:
		q.of[k] = slices.Delete(list, i, i+1)
	}
}

// changedHands returns what has another owner than before, and forgets that. Dirty is who
// is told another owner, or is told now, or is no longer.
func (q *queues[K]) changedHands(dirty set) (changed []K) {
	for k, was := range q.before {
		is := q.head(k)
		moved := (len(was) > 0) != (len(is) > 0) || len(is) > 0 && was[0] != is[0].Key
		if moved {
			changed = append(changed, k)
		}
		for _, key := range was {
			if moved || !q.tells(k, key) {
				dirty[key] = struct{}{}
			}
		}
		for _, c := range is {
			if moved || !slices.Contains(was, c.Key) {
				dirty[c.Key] = struct{}{}
			}
		}
	}
	q.before = nil
	return changed
}

func first(list []claimant) ObjectKey {
	if len(list) == 0 {
		return ObjectKey{}
	}
	return list[0].Key
}
