package topology

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
)

// Outside is a frontend that lies outside the range of ClusterIPs. That of a
// node port has the unspecified address of its family, which stands for the
// addresses of this node at which node ports are served.
type Outside struct {
	Frontend
	Kind     OutsideKind
	Path     Path // what serves it
	PortName string
	// Tiers answer pods and the node itself, and everybody where not Local.
	Tiers []Tier
	// Local is externalTrafficPolicy: Local. Clients from elsewhere get LocalTiers,
	// endpoints of this node, and keep their source; of others' it is masqueraded.
	Local      bool
	LocalTiers []Tier
	// Silent asks for packets of clients from elsewhere to be dropped: this node
	// has no endpoint, and others have. Where nobody has, they are refused.
	Silent bool
	// Sources are who may dial, whoever they are; nil for everybody.
	Sources []netip.Prefix
	Serving []netip.AddrPort // as of a FrontendView
}

// OutsideKind says where a Service has an address outside of its ClusterIPs from.
type OutsideKind uint8

// The kinds, in the order in which they are believed: an external address is
// what a tenant wrote, that of a load balancer what the cluster gave it.
const (
	NodePort OutsideKind = iota
	LoadBalancer
	ExternalIP
)

// String is the word of the Kubernetes API.
func (k OutsideKind) String() string {
	switch k {
	case NodePort:
		return "NodePort"
	case LoadBalancer:
		return "LoadBalancer"
	case ExternalIP:
		return "ExternalIP"
	}
	return fmt.Sprintf("OutsideKind-%d", uint8(k))
}

// field is where it stands in a Service.
func (k OutsideKind) field() string {
	return [...]string{"spec.ports[].nodePort", "status.loadBalancer.ingress", "spec.externalIPs"}[k]
}

// door is a claim to a frontend.
type door struct {
	Frontend
	kind OutsideKind
}

// opensOutside reports whether there may be any.
func (s *Service) opensOutside() bool {
	return s.Exposure != nil || slices.ContainsFunc(s.Ports, func(p ServicePort) bool { return p.NodePort != 0 })
}

// outside yields the frontends of a Service besides those of its ClusterIPs, which
// may be millions. As in kube-proxy there are none of a family that it has no
// ClusterIP of.
func (s *Service) outside() iter.Seq2[ServicePort, door] {
	return func(yield func(ServicePort, door) bool) {
		for _, ip := range s.ClusterIPs {
			balancers, external := s.Exposure.of(ip.Is6())
			for _, port := range s.Ports {
				next := func(addr netip.Addr, number uint16, kind OutsideKind) bool {
					return yield(port, door{Frontend{addr, number, port.Protocol}, kind})
				}
				if port.NodePort != 0 && !next(unspecified(ip), port.NodePort, NodePort) {
					return
				}
				for _, addr := range balancers {
					if !next(addr, port.Port, LoadBalancer) {
						return
					}
				}
				for _, addr := range external {
					if !next(addr, port.Port, ExternalIP) {
						return
					}
				}
			}
		}
	}
}

// of are the addresses of one family.
func (x *Exposure) of(ipv6 bool) (balancers, external []netip.Addr) {
	if x == nil {
		return nil, nil
	}
	other := func(ip netip.Addr) bool { return ip.Is6() != ipv6 }
	return slices.DeleteFunc(slices.Clone(x.LoadBalancers), other), slices.DeleteFunc(slices.Clone(x.ExternalIPs), other)
}

// unspecified is the address that stands for this node's of ip's family.
func unspecified(ip netip.Addr) netip.Addr {
	if ip.Is6() {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}

// outside adds the frontends besides those of the ClusterIPs.
func (i *inquiry) outside() {
	p := i.claims.portions[i.service.Key]
	if p == nil {
		return
	}
	n, seen, said := 0, map[Frontend]bool{}, map[string]bool{}
	lack := 0
	for port, d := range i.service.outside() {
		if n++; n > p.granted {
			i.view.problem(d.kind.field(), p.why(i.claims.most))
			break
		}
		why, mine := i.mine(d, seen)
		if why != "" && !said[why] {
			said[why] = true
			i.view.problem(d.kind.field(), why)
		}
		if !mine {
			continue
		}
		seen[d.Frontend] = true
		if p.guards(d) {
			if !p.guard.room[p.family(d.Addr)] {
				lack++ // without its ranges it would be open, so it is there by no other way either
				continue
			}
		}
		i.view.Outside = append(i.view.Outside, i.outsideView(port, d))
	}
	if lack > 0 {
		i.view.problem(sourceRanges, p.whyUnguarded(lack, i.claims.most))
	}
	slices.SortFunc(i.view.Outside, func(a, b Outside) int { return a.Compare(b.Frontend) })
}

func (i *inquiry) outsideView(port ServicePort, d door) Outside {
	ipv6, x := d.Addr.Is6(), i.service.Exposure
	all := i.ask(port, ipv6, false)
	i.tell(d.Frontend, all)
	o := Outside{Frontend: d.Frontend, Kind: d.kind, Path: i.view.pathOutside(), PortName: port.Name, Tiers: all.tiers}
	o.Serving = i.serving(port, ipv6, o.Path)
	if x != nil && x.Local {
		o.Local, o.LocalTiers = true, i.ask(port, ipv6, true).tiers
		o.Silent = len(o.LocalTiers) == 0 && len(o.Tiers) > 0
	}
	if x != nil && d.kind == LoadBalancer {
		o.Sources = i.sources(ipv6)
	}
	return o
}

// sources are the ranges of a family, the same for all pairs: there may be a million of both.
func (i *inquiry) sources(ipv6 bool) []netip.Prefix {
	if i.ranges == nil {
		i.ranges = map[bool][]netip.Prefix{}
		for _, p := range i.service.Exposure.Sources {
			i.ranges[p.Addr().Is6()] = append(i.ranges[p.Addr().Is6()], p)
		}
	}
	return i.ranges[ipv6]
}

// mine reports whether a frontend is this Service's, or what is to be said of it.
func (i *inquiry) mine(d door, seen map[Frontend]bool) (why string, is bool) {
	key := i.service.Key
	switch owner, clusterIP := i.claims.whose(i.service, d.Frontend); {
	case clusterIP && owner == key:
		return "", false // served as what it is
	case clusterIP:
		return fmt.Sprintf("%s is a ClusterIP of service %s and is not served for this one; remove it here", d.Addr, owner), false
	case owner != key && d.kind == NodePort:
		return fmt.Sprintf("%d/%s belongs to %s already and is not served for this one; give one of them another port", d.Port, d.Protocol, i.claims.holder(i.service, d.Frontend, owner)), false
	case owner != key:
		return fmt.Sprintf("%s belongs to %s already and is not served for this one; give one of them another address", d.Frontend, i.claims.holder(i.service, d.Frontend, owner)), false
	case !seen[d.Frontend]:
		return "", true
	case d.kind == NodePort:
		return fmt.Sprintf("%d/%s occurs twice; the first is served", d.Port, d.Protocol), false
	}
	return "", false // a port that is there twice, and of the ClusterIP it is said
}

// HealthCheck is what load balancers ask this node about a Service.
type HealthCheck struct {
	Port uint16
	// IPv4 and IPv6 are the numbers of ready endpoints of this node by family, each
	// address once: a node with none is to get no new connections.
	IPv4, IPv6 int
}

// healthCheck counts the endpoints that this node has for clients from outside.
func (i *inquiry) healthCheck() {
	s := i.service
	if s.Exposure == nil || s.Exposure.HealthCheckNodePort == 0 {
		return
	}
	i.looked = 0 // what its ports cost takes nothing from this
	ready := map[netip.Addr]bool{}
	for _, ip := range s.ClusterIPs {
		for _, port := range portsOf(i.slices, ip.Is6()) { // as in kube-proxy, also those that the Service lacks
			// Where the Service is bounded, its ports have but a part of them.
			for _, addr := range i.decide(topic{port, ip.Is6(), true}, 0, false).ready {
				ready[addr] = true
			}
		}
	}
	i.view.HealthCheck = &HealthCheck{Port: s.Exposure.HealthCheckNodePort}
	for addr := range ready {
		if addr.Is6() {
			i.view.HealthCheck.IPv6++
		} else {
			i.view.HealthCheck.IPv4++
		}
	}
}
