package dnsplugin

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/test"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/gridmesh/gridmesh/dnsplugin/answer"
	"github.com/gridmesh/gridmesh/topology"
)

// crowded has a Service of many ports and pods, and one pod of many Services.
func crowded() *topology.Snapshot {
	b, keys := topology.NewBuilder(), `["site"]`
	b.SetNode(&topology.Node{Name: "a1", Labels: map[string]string{"site": "a"}})
	add := func(name string, ports, pods int) {
		key := topology.ObjectKey{Namespace: "shop", Name: name}
		b.SetService(&topology.Service{Key: key, Headless: true, GridKey: "site", TopologyKeys: &keys})
		slice := &topology.Slice{Key: key, Service: name}
		for i := range ports {
			slice.Ports = append(slice.Ports, topology.SlicePort{Name: fmt.Sprint("p", i), Protocol: topology.TCP, Port: uint16(i + 1)})
		}
		for i := range pods {
			slice.Endpoints = append(slice.Endpoints, topology.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), Node: "a1", Ready: true, Serving: true})
		}
		b.SetSlice(slice)
	}
	add("wide", 2000, 6000)
	for i := range 6000 {
		add(fmt.Sprint("one", i), 1, 1)
	}
	return b.Build()
}

// A question for thousands of records, or millions, is answered with what fits into a
// message over TCP, the largest there is, and TC.
func TestTruncated(t *testing.T) {
	g := plugged(answer.Config{Services: true})
	g.publish(crowded(), fromSource)
	for _, ask := range []test.Case{
		{Qname: "wide.shop.svc.cluster.local.", Qtype: dns.TypeSRV},
		{Qname: "wide.shop.svc.cluster.local.", Qtype: dns.TypeA},
		{Qname: "_p1._tcp.wide.shop.svc.cluster.local.", Qtype: dns.TypeA},
		{Qname: "0.0.1.10.in-addr.arpa.", Qtype: dns.TypePTR},
	} {
		what := ask.Qname + " " + dns.TypeToString[ask.Qtype]
		rec := dnstest.NewRecorder(&test.ResponseWriter{TCP: true})
		if _, err := g.ServeDNS(context.Background(), rec, ask.Msg()); err != nil {
			t.Fatal(err)
		}
		if n := len(rec.Msg.Answer) + len(rec.Msg.Extra); !rec.Msg.Truncated || n > 5000 {
			t.Errorf("%s: %d records, truncated %v", what, n, rec.Msg.Truncated)
		}
		req := request.Request{W: rec, Req: ask.Msg()}
		sent, err := req.Scrub(rec.Msg).Pack()
		if err != nil || len(sent) > dns.MaxMsgSize || len(sent) < dns.MaxMsgSize-100 {
			t.Errorf("%s: %d bytes are sent (%v), a message has room for %d", what, len(sent), err, dns.MaxMsgSize)
		}
		if !rec.Msg.Truncated {
			t.Errorf("%s: TC is not said", what)
		}
	}
}

// A cache in front counts answers, and not what they take: who asks for the many names
// of a Service of many pods would fill the server's memory. So no cache keeps large ones;
// they are made from what is in memory anyway.
func TestLargeAnswersAreNotCached(t *testing.T) {
	b, keys := topology.NewBuilder(), `["site"]`
	b.SetNode(&topology.Node{Name: "a1", Labels: map[string]string{"site": "a"}})
	key := topology.ObjectKey{Namespace: "shop", Name: "wide"}
	b.SetService(&topology.Service{Key: key, Headless: true, GridKey: "site", TopologyKeys: &keys})
	for _, pods := range []int{mostCached, mostCached + 1} {
		slice := &topology.Slice{Key: key, Service: key.Name, Ports: []topology.SlicePort{{Name: "p1", Protocol: topology.TCP, Port: 80}}}
		for i := range pods {
			slice.Endpoints = append(slice.Endpoints, topology.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}), Node: "a1", Ready: true, Serving: true})
		}
		b.SetSlice(slice)
		g := plugged(answer.Config{Services: true})
		g.cfg.ttl = 7
		g.publish(b.Build(), fromSource)
		for _, ask := range []test.Case{
			{Qname: "wide.shop.svc.cluster.local.", Qtype: dns.TypeA},
			{Qname: "_p1._tcp.wide.shop.svc.cluster.local.", Qtype: dns.TypeA},
			{Qname: "wide.shop.svc.cluster.local.", Qtype: dns.TypeSRV},
		} {
			rec := dnstest.NewRecorder(&test.ResponseWriter{})
			if _, err := g.ServeDNS(context.Background(), rec, ask.Msg()); err != nil {
				t.Fatal(err)
			}
			want := uint32(7)
			if n := len(rec.Msg.Answer) + len(rec.Msg.Extra); n > mostCached {
				want = 0
			} else if n < pods {
				t.Fatalf("%s has %d records of %d pods", ask.Qname, n, pods)
			}
			for _, rr := range append(rec.Msg.Answer, rec.Msg.Extra...) {
				if got := rr.Header().Ttl; got != want {
					t.Fatalf("%s %s of %d pods: the TTL is %d, want %d", ask.Qname, dns.TypeToString[ask.Qtype], pods, got, want)
				}
			}
		}
	}
}
