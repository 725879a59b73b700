package answer

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/gridmesh/gridmesh/topology"
)

// Result is what became of a question.
type Result int

// The results.
const (
	// Passed: the next plugin may know the name.
	Passed Result = iota
	// NotFound: the cluster has no Service of this name, as far as is known. The
	// next plugin is asked; if it does not answer, the name does not exist.
	NotFound
	// NXDomain: the name does not exist (RFC 8020).
	NXDomain
	// Found: the name exists; without records the answer is NODATA (RFC 2308).
	Found
)

// Type is the type of the records that are asked for.
type Type int

// The types that are answered; of any other, a name that exists has no data.
const (
	Other Type = iota
	A
	AAAA
	SRV
)

// Types are those of names by what they are called; PTR is an address' (Index.PTR).
var Types = map[string]Type{
	"A":    A,
	"AAAA": AAAA,
	"SRV":  SRV,
}

// Answer to one question.
type Answer struct {
	Result Result
	Addrs  []netip.Addr // for A and AAAA
	SRV    []Target     // for SRV
	// Truncated: there are more records, which no message of DNS has room for.
	Truncated bool
}

func (a *Answer) take(t targets, s addresses) {
	a.SRV, a.Addrs = t.list, s.settle()
	a.Truncated = t.full || s.full // s knows once it has settled
}

// Target of an SRV record, with its addresses.
type Target struct {
	Name  string // relative to the zone
	Port  uint16
	Addrs []netip.Addr
}

// Lookup answers a question about a name below "svc" of the zone, as
// "web.shop" or "_http._tcp.web.shop": relative, in lower case.
func (x *Index) Lookup(name string, qtype Type) Answer {
	labels := strings.Split(name, ".")
	n := len(labels)
	if n < 2 || n > 4 {
		return Answer{Result: x.unanswered(labels)}
	}
	svc, ok := x.services.Get(labels[n-2] + "." + labels[n-1])
	if !ok {
		return Answer{Result: x.unanswered(labels)}
	}
	below := labels[:n-2]
	switch {
	case !svc.Service.Headless && !x.cfg.Services && len(below) != 1:
		return Answer{} // of a ClusterIP Service only ordinals are ours
	case len(below) == 2:
		return x.port(svc, labels, qtype)
	case len(below) == 1:
		return x.host(svc, labels, qtype)
	case !svc.Service.Headless:
		return clusterIP(svc, name, qtype)
	}
	return x.headless(svc, name, qtype)
}

// unanswered is the result for a name that is not answered here: a namespace, a
// Service, or what is below one. The next plugin may know it.
func (x *Index) unanswered(labels []string) Result {
	n := len(labels)
	if !x.cfg.Services {
		return Passed
	}
	switch {
	case n == 1:
		if _, ok := x.namespaces.Get(labels[0]); ok {
			return Passed
		}
	case n <= 4:
		if _, ok := x.view.Service(topology.ObjectKey{Namespace: labels[n-1], Name: labels[n-2]}); ok {
			return Passed
		}
	}
	return NotFound
}

// OutsideServices is the result for a name of the zone outside "svc", relative
// to the zone. The DNS specification has few.
func (x *Index) OutsideServices(name string) Result {
	switch top := name[strings.LastIndexByte(name, '.')+1:]; {
	case !x.cfg.Services, top == "svc", top == "pod", top == "dns", top == "dns-version":
		return Passed
	}
	return NotFound
}

func clusterIP(svc *service, name string, qtype Type) Answer {
	a, ips := Answer{Result: Found}, svc.ClusterIPs
	switch qtype {
	case A, AAAA:
		a.Addrs = family(ips, qtype)
	case SRV:
		var list targets
		for _, p := range svc.Service.Ports {
			if list.add(name, p.Port, ips...); list.full {
				break
			}
		}
		a.take(list, addresses{})
	}
	return a
}

func (x *Index) headless(svc *service, name string, qtype Type) Answer {
	if len(svc.Members) == 0 {
		return x.empty(svc)
	}
	a := Answer{Result: Found}
	list, ips := targets{}, addresses{qtype: qtype}
	for _, m := range svc.Members {
		switch qtype {
		case A, AAAA:
			ips.add(m.Addr)
		case SRV:
			list.pod(hostName(m.Endpoint)+"."+name, m.Addr, m.Ports)
		}
		if list.full || ips.full {
			break
		}
	}
	a.take(list, ips)
	return a
}

// empty is a name without an endpoint in this unit. Of a Service without any
// ready one, it does not exist (DNS specification, kubernetes/dns#234).
func (x *Index) empty(svc *service) Answer {
	if len(svc.Pods) == 0 || x.cfg.EmptyNXDomain {
		return Answer{Result: NXDomain}
	}
	return Answer{Result: Found}
}

// host answers for a pod below a Service.
func (x *Index) host(svc *service, labels []string, qtype Type) Answer {
	var m podRecords
	if found, listed := svc.listed(labels[0]); listed {
		m = recordsOf(found, labels, qtype)
	} else {
		m = svc.unlistedRecords(labels, qtype)
	}
	switch {
	case m.any:
	case svc.elsewhere[labels[0]]:
		return x.empty(svc)
	case !svc.Service.Headless && !x.cfg.Services:
		return Answer{}
	default:
		return Answer{Result: NXDomain}
	}
	a := Answer{Result: Found}
	a.take(m.srv, m.ips)
	return a
}

// podRecords are records in the making of the pods of one name.
type podRecords struct {
	any bool
	srv targets
	ips addresses
}

// add adds a pod, and reports whether no message has room for more.
func (m *podRecords) add(p *topology.Pod, labels []string) (full bool) {
	m.any = true
	switch m.ips.qtype {
	case A, AAAA:
		m.ips.add(p.Addr)
	case SRV:
		m.srv.pod(strings.Join(labels, "."), p.Addr, p.Ports)
	}
	return m.srv.full || m.ips.full
}

func recordsOf(list []*topology.Pod, labels []string, qtype Type) podRecords {
	m := podRecords{ips: addresses{qtype: qtype}}
	for _, p := range list {
		if m.add(p, labels) {
			break
		}
	}
	return m
}

// unlistedRecords are those of pods that are not listed, which are rarely asked for: to
// range over them costs more than a list of one.
func (svc *service) unlistedRecords(labels []string, qtype Type) podRecords {
	m := podRecords{ips: addresses{qtype: qtype}}
	for p := range svc.unlisted(labels[0]) {
		if m.add(p, labels) {
			break
		}
	}
	return m
}

// port answers _port._proto.service.namespace, for addresses too; as the
// kubernetes plugin does, with or without the underscores, and where one is
// all of a label, for any port or protocol.
func (x *Index) port(svc *service, labels []string, qtype Type) Answer {
	port, proto, name := strings.TrimPrefix(labels[0], "_"), strings.TrimPrefix(labels[1], "_"), strings.Join(labels[2:], ".")
	a, list, ips := Answer{Result: NXDomain}, targets{}, addresses{qtype: qtype}
	switch {
	case !svc.Service.Headless:
		for _, p := range svc.Service.Ports {
			if !isPort(p.Name, p.Protocol, port, proto) {
				continue
			}
			a.Result = Found
			switch qtype {
			case SRV:
				list.add(name, p.Port, svc.ClusterIPs...)
			case A, AAAA:
				for _, ip := range svc.ClusterIPs {
					ips.add(ip)
				}
			}
			if list.full || ips.full {
				break
			}
		}
	case len(svc.Members) == 0:
		return x.empty(svc)
	}
	filter := portFilter{port, proto, map[*topology.SlicePort][]topology.SlicePort{}}
	for _, m := range svc.Members {
		ports := filter.pick(m.Ports)
		if len(ports) == 0 {
			continue
		}
		a.Result = Found
		switch qtype {
		case SRV:
			list.pod(hostName(m.Endpoint)+"."+name, m.Addr, ports)
		case A, AAAA:
			ips.add(m.Addr)
		}
		if list.full || ips.full {
			break
		}
	}
	a.take(list, ips)
	return a
}

func isPort(name string, protocol topology.Protocol, port, proto string) bool {
	return (port == "" || strings.EqualFold(name, port)) && (proto == "" || protocol.String() == proto)
}

// family picks the addresses that A or AAAA asks for.
func family(list []netip.Addr, qtype Type) []netip.Addr {
	if len(list) == 1 && list[0].Is4() == (qtype == A) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(ip netip.Addr) bool { return ip.Is4() != (qtype == A) })
}
