package dnsplugin

import (
	"net/netip"
	"strings"

	"github.com/coredns/coredns/plugin/pkg/dnsutil"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/gridmesh/gridmesh/dnsplugin/answer"
)

// mostCached is how many records an answer has that a cache in front may keep: CoreDNS'
// own counts answers, 9984 in deploy/, and one of 4000 records takes half a MiB.
const mostCached = 64

// fill puts the records for a question into m and returns what became of it.
func (g *Grid) fill(m *dns.Msg, x *answer.Index, req *request.Request, zone string) answer.Result {
	result := g.records(m, x, req, zone)
	if len(m.Answer)+len(m.Extra) > mostCached {
		for _, section := range [][]dns.RR{m.Answer, m.Extra} {
			for _, rr := range section {
				rr.Header().Ttl = 0
			}
		}
	}
	return result
}

func (g *Grid) records(m *dns.Msg, x *answer.Index, req *request.Request, zone string) answer.Result {
	if req.QType() == dns.TypePTR {
		return g.ptr(m, x, req)
	}
	suffix := "svc." + zone
	relative, ok := strings.CutSuffix(req.Name(), "."+suffix)
	if !ok {
		if below, ok := strings.CutSuffix(req.Name(), "."+zone); ok && !reverse(zone) {
			return x.OutsideServices(below)
		}
		return answer.Passed
	}
	a := x.Lookup(relative, typeOf(req.QType()))
	for _, ip := range a.Addrs {
		m.Answer = append(m.Answer, g.address(req.QName(), ip))
	}
	g.srv(m, req.QName(), suffix, a.SRV)
	m.Truncated = a.Truncated
	return a.Result
}

// srv puts SRV records and their addresses into m. An endpoint of two
// families is one target, as the kubernetes plugin has it.
func (g *Grid) srv(m *dns.Msg, qname, suffix string, list []answer.Target) {
	n := 0 // of addresses: the kubernetes plugin weighs by them
	for _, t := range list {
		n += len(t.Addrs)
	}
	weight := uint16(max(1, 100/max(1, n)))
	type port struct {
		name string
		port uint16
	}
	ports, addrs := map[port]bool{}, map[string]bool{}
	for _, t := range list {
		target := t.Name + "." + suffix
		if key := (port{target, t.Port}); !ports[key] {
			ports[key] = true
			m.Answer = append(m.Answer, &dns.SRV{Hdr: g.header(qname, dns.TypeSRV), Weight: weight, Port: t.Port, Target: target})
		}
		for _, ip := range t.Addrs {
			if key := target + ip.String(); !addrs[key] {
				addrs[key] = true
				m.Extra = append(m.Extra, g.address(target, ip))
			}
		}
	}
}

// ptr answers PTR where the cluster's Services are answered, for addresses
// that are known.
func (g *Grid) ptr(m *dns.Msg, x *answer.Index, req *request.Request) answer.Result {
	ip, err := netip.ParseAddr(dnsutil.ExtractAddressFromReverse(req.Name()))
	if err != nil {
		return answer.Passed
	}
	result := answer.Passed
	names, truncated := x.PTR(ip)
	m.Truncated = truncated
	for _, name := range names {
		m.Answer = append(m.Answer, &dns.PTR{Hdr: g.header(req.QName(), dns.TypePTR), Ptr: name + ".svc." + g.forward()})
		result = answer.Found
	}
	return result
}

// forward is the zone that names are in: the first that is not a reverse one.
func (g *Grid) forward() string {
	for _, z := range g.Zones {
		if !reverse(z) {
			return z
		}
	}
	return "cluster.local."
}

func reverse(zone string) bool {
	return dns.IsSubDomain("in-addr.arpa.", zone) || dns.IsSubDomain("ip6.arpa.", zone)
}

func typeOf(qtype uint16) answer.Type {
	switch qtype {
	case dns.TypeA:
		return answer.A
	case dns.TypeAAAA:
		return answer.AAAA
	case dns.TypeSRV:
		return answer.SRV
	}
	return answer.Other
}

func (g *Grid) header(name string, rrtype uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: rrtype, Class: dns.ClassINET, Ttl: g.cfg.ttl}
}

func (g *Grid) address(name string, ip netip.Addr) dns.RR {
	if ip.Is4() {
		return &dns.A{Hdr: g.header(name, dns.TypeA), A: ip.AsSlice()}
	}
	return &dns.AAAA{Hdr: g.header(name, dns.TypeAAAA), AAAA: ip.AsSlice()}
}

// soa has the form of the kubernetes plugin's.
func (g *Grid) soa(zone string, now *state) dns.RR {
	return &dns.SOA{
		Hdr: g.header(zone, dns.TypeSOA), Ns: dnsutil.Join("ns.dns", zone), Mbox: dnsutil.Join("hostmaster", zone),
		Serial: uint32(now.at.Unix()), Refresh: 7200, Retry: 1800, Expire: 86400, Minttl: g.cfg.ttl,
	}
}
