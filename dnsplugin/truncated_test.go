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

// A question for millions of SRV records is answered with what fits into a
// message over TCP, the largest there is, and TC.
func TestTruncated(t *testing.T) {
	b := topology.NewBuilder()
	key, keys := topology.ObjectKey{Namespace: "shop", Name: "wide"}, `["site"]`
	b.SetNode(&topology.Node{Name: "a1", Labels: map[string]string{"site": "a"}})
	b.SetService(&topology.Service{Key: key, Headless: true, GridKey: "site", TopologyKeys: &keys})
	slice := &topology.Slice{Key: key, Service: key.Name}
	for i := range 2000 {
		slice.Ports = append(slice.Ports, topology.SlicePort{Name: fmt.Sprint("p", i), Protocol: topology.TCP, Port: uint16(i + 1)})
	}
	for i := range 1000 {
		slice.Endpoints = append(slice.Endpoints, topology.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), Node: "a1", Ready: true, Serving: true})
	}
	b.SetSlice(slice)
	g := plugged(answer.Config{})
	g.publish(b.Build(), fromSource)
	ask := test.Case{Qname: "wide.shop.svc.cluster.local.", Qtype: dns.TypeSRV}
	rec := dnstest.NewRecorder(&test.ResponseWriter{TCP: true})
	if _, err := g.ServeDNS(context.Background(), rec, ask.Msg()); err != nil {
		t.Fatal(err)
	}
	if n := len(rec.Msg.Answer) + len(rec.Msg.Extra); !rec.Msg.Truncated || n > 5000 {
		t.Errorf("%d records, truncated %v", n, rec.Msg.Truncated)
	}
	req := request.Request{W: rec, Req: ask.Msg()}
	sent, err := req.Scrub(rec.Msg).Pack()
	if err != nil || len(sent) > dns.MaxMsgSize || len(sent) < dns.MaxMsgSize-100 {
		t.Errorf("%d bytes are sent (%v), a message has room for %d", len(sent), err, dns.MaxMsgSize)
	}
	if !rec.Msg.Truncated {
		t.Error("TC is not said")
	}
}
