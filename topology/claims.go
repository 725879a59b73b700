package topology

import (
	"maps"
	"net/netip"
	"slices"
)

// claims are which Services ask for an address or frontend. Whoever shares one
// with a Service that changes is evaluated again, for its owner may be another.
type claims struct {
	onAddr map[netip.Addr]set // ClusterIPs
	doors  map[door]set       // frontends besides those
	onDoor map[netip.Addr]set // addresses of those, but for node ports

	outsideToo bool // doors are asked for
}

func newClaims(opts Options) claims {
	return claims{outsideToo: opts.Outside, onAddr: map[netip.Addr]set{}, doors: map[door]set{}, onDoor: map[netip.Addr]set{}}
}

// count adds a Service's claims, or with n < 0 removes them, and marks as dirty
// whom that concerns.
func (c *claims) count(s *Service, n int, dirty set) {
	for _, ip := range s.ClusterIPs {
		count(c.onAddr, ip, s.Key, n)
		maps.Copy(dirty, c.onAddr[ip])
		maps.Copy(dirty, c.onDoor[ip])
	}
	if !c.outsideToo {
		return
	}
	for _, d := range s.outside() {
		count(c.doors, d, s.Key, n)
		if d.kind != NodePort {
			count(c.onDoor, d.Addr, s.Key, n)
		}
		for _, kind := range []OutsideKind{NodePort, LoadBalancer, ExternalIP} {
			maps.Copy(dirty, c.doors[door{d.Frontend, kind}])
		}
	}
}

// clusterIP is the owner of a ClusterIP: the first Service by name among those
// that claim it. It is believed before what Services claim besides.
func (c *claims) clusterIP(ip netip.Addr) (owner ObjectKey, is bool) {
	return first(c.onAddr[ip])
}

// outside is the owner of a frontend besides those of ClusterIPs: the first by
// name among those that claim it for the best reason.
func (c *claims) outside(d door) ObjectKey {
	for kind := range d.kind {
		if owner, is := first(c.doors[door{d.Frontend, kind}]); is {
			return owner
		}
	}
	owner, _ := first(c.doors[d])
	return owner
}

func first(claims set) (ObjectKey, bool) {
	switch len(claims) {
	case 0:
		return ObjectKey{}, false
	case 1:
		for key := range claims {
			return key, true
		}
	}
	return slices.MinFunc(slices.Collect(maps.Keys(claims)), ObjectKey.Compare), true
}
