package answer

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/gridmesh/gridmesh/topology"
)

// Kind is what is known of a name.
type Kind int

// The kinds.
const (
	// Foreign: others may know the name.
	Foreign Kind = iota
	// Absent: the cluster has no Service of this name, as far as is known. Who
	// else can be asked, is; if nobody answers, the name does not exist.
	Absent
	// Unknown: the name does not exist (NXDOMAIN).
	Unknown
	// Known: the name exists; the answer may be empty (NODATA).
	Known
)

// Type is what is asked for.
type Type int

// The types that are answered; of any other, a known name has no data.
const (
	Other Type = iota
	A
	AAAA
	SRV
)

// Answer to one question.
type Answer struct {
	Kind    Kind
	Addrs   []netip.Addr // for A and AAAA
	Targets []Target     // for SRV
}

// Target of an SRV record, with its addresses.
type Target struct {
	Name  string // relative to the zone
	Port  uint16
	Addrs []netip.Addr
}

// Lookup answers a question about a name below "svc" of the zone, as
// "web.shop" or "_http._tcp.web.shop": relative, in lower case.
func (x *Index) Lookup(name string, ask Type) Answer {
	labels := strings.Split(name, ".")
	n := len(labels)
	if n < 2 || n > 4 {
		return Answer{Kind: x.stranger(labels)}
	}
	svc, ok := x.services.Get(labels[n-2] + "." + labels[n-1])
	if !ok {
		return Answer{Kind: x.stranger(labels)}
	}
	below := labels[:n-2]
	switch {
	case len(below) == 2 && strings.HasPrefix(below[0], "_") && strings.HasPrefix(below[1], "_"):
		return x.port(svc, labels, ask)
	case len(below) == 1:
		return x.host(svc, below[0], ask)
	case len(below) == 2:
		return x.foreignOr(svc, Unknown)
	case !svc.headless:
		return x.clusterIP(svc, name, ask)
	}
	return x.headless(svc, name, ask)
}

// stranger tells of a name that is not answered whether others may know it: a
// namespace, a Service, or what is below one.
func (x *Index) stranger(labels []string) Kind {
	n := len(labels)
	if !x.cfg.Services {
		return Foreign
	}
	switch {
	case n == 1:
		if _, ok := x.namespaces.Get(labels[0]); ok {
			return Foreign
		}
	case n <= 4 && exists(x.snapshot, topology.ObjectKey{Namespace: labels[n-1], Name: labels[n-2]}) > 0:
		return Foreign
	}
	return Absent
}

// Beside tells of a name of the zone outside "svc", relative to the zone. The
// DNS specification knows few.
func (x *Index) Beside(name string) Kind {
	switch top := name[strings.LastIndexByte(name, '.')+1:]; {
	case !x.cfg.Services, top == "svc", top == "pod", top == "dns", top == "dns-version":
		return Foreign
	}
	return Absent
}

// foreignOr leaves a ClusterIP Service to others, where they are to answer it.
func (x *Index) foreignOr(svc *service, kind Kind) Answer {
	if !svc.headless && !x.cfg.Services {
		return Answer{}
	}
	return Answer{Kind: kind}
}

func (x *Index) clusterIP(svc *service, name string, ask Type) Answer {
	if !x.cfg.Services {
		return Answer{}
	}
	a := Answer{Kind: Known}
	switch ask {
	case A, AAAA:
		a.Addrs = family(svc.ips, ask)
	case SRV:
		for _, p := range svc.ports {
			a.Targets = append(a.Targets, Target{name, p.Port, svc.ips})
		}
	}
	return a
}

func (x *Index) headless(svc *service, name string, ask Type) Answer {
	if len(svc.members) == 0 {
		return x.empty(svc)
	}
	a := Answer{Kind: Known}
	for _, m := range svc.members {
		switch ask {
		case A, AAAA:
			if m.addr.Is4() == (ask == A) {
				a.Addrs = append(a.Addrs, m.addr)
			}
		case SRV:
			for _, p := range m.ports {
				a.Targets = append(a.Targets, Target{m.name + "." + name, p.Port, []netip.Addr{m.addr}})
			}
		}
	}
	return a
}

// empty is a Service without an endpoint in this unit. One without any does
// not exist (DNS specification, kubernetes/dns#234).
func (x *Index) empty(svc *service) Answer {
	if !svc.exists || x.cfg.EmptyNXDomain {
		return Answer{Kind: Unknown}
	}
	return Answer{Kind: Known}
}

func (x *Index) host(svc *service, name string, ask Type) Answer {
	h, known := svc.hosts[name]
	switch {
	case !known && svc.elsewhere[name]:
		return x.empty(svc)
	case !known:
		return x.foreignOr(svc, Unknown)
	}
	a := Answer{Kind: Known}
	if ask == A || ask == AAAA {
		a.Addrs = family(h.all(), ask)
	}
	return a
}

// port answers _port._proto.service.namespace.
func (x *Index) port(svc *service, labels []string, ask Type) Answer {
	if !svc.headless && !x.cfg.Services {
		return Answer{}
	}
	port, proto, name := labels[0][1:], labels[1][1:], strings.Join(labels[2:], ".")
	a := Answer{Kind: Unknown}
	add := func(target string, to uint16, addrs []netip.Addr) {
		a.Kind = Known
		if ask == SRV {
			a.Targets = append(a.Targets, Target{target, to, addrs})
		}
	}
	if !svc.headless {
		for _, p := range svc.ports {
			if matches(p.Name, p.Protocol, port, proto) {
				add(name, p.Port, svc.ips)
			}
		}
		return a
	}
	if len(svc.members) == 0 {
		return x.empty(svc)
	}
	for _, m := range svc.members {
		for _, p := range m.ports {
			if matches(p.Name, p.Protocol, port, proto) {
				add(m.name+"."+name, p.Port, []netip.Addr{m.addr})
			}
		}
	}
	return a
}

func matches(name string, protocol topology.Protocol, port, proto string) bool {
	return name != "" && strings.EqualFold(name, port) && protocol.String() == proto
}

// Pointers are the names of an address, relative to "svc" of the zone.
func (x *Index) Pointers(ip netip.Addr) (names []string) {
	p, _ := x.pointers.Get(ip.Unmap())
	for ; p != nil; p = p.next {
		name := p.service
		if p.host != "" {
			name = p.host + "." + p.service
		}
		names = append(names, name)
	}
	return names
}

func family(list []netip.Addr, ask Type) []netip.Addr {
	if len(list) == 1 && list[0].Is4() == (ask == A) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(ip netip.Addr) bool { return ip.Is4() != (ask == A) })
}
