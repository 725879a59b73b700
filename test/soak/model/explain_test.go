package model

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

// What was judged by can be read, and is of a bounded length.
func TestExplain(t *testing.T) {
	h, told := told(t)
	h.SetService(after(5), web, service(`["unit"]`))
	h.SetSlice(after(6), web, slice("a"))
	span := Span{From: after(7), To: after(9), Held: after(1)}
	got := h.Explain(told, frontend, span)
	for _, want := range []string{
		"a may have had what it was told of by 00:00:07.000, up to the news of 00:00:09.000, and held of its unit what it was told of by 00:00:01.000",
		"service default/web: absent from the start; keys none, Cluster from 00:00:01.000, told at 00:00:02.000; keys unit, Cluster from 00:00:05.000",
		"slice default/web: absent from the start; of web [10.244.1.2 on a ready, 10.244.2.2 on b ready] from 00:00:01.000, told at 00:00:02.000; of web [10.244.1.2 on a ready] from 00:00:06.000",
		"node b: absent from the start; unit=v from 00:00:01.000, told at 00:00:02.000",
		"may be held for another Service: nothing",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nlacks %q", got, want)
		}
	}
	see(h, told, 10)
	if got, want := h.Explain(told, frontend, span), "the node was last told"; strings.Contains(got, want) {
		t.Errorf("what it was told later counts:\n%s", got)
	}
	if got := h.Explain(told, topology.Frontend{Addr: netip.MustParseAddr("10.96.0.9")}, span); !strings.Contains(got, "10.96.0.9 is no Service's") {
		t.Errorf("of an address that nobody has: %s", got)
	}
	for i := range 200 { // seconds, nodes and endpoints
		name := fmt.Sprint("n", i)
		h.SetNode(after(10+i), name, node(name, "u"))
		h.SetService(after(10+i), web, service([]string{"", `["unit"]`}[i%2]))
		s := slice("a", "b")
		for j := range i {
			s.Endpoints = append(s.Endpoints, topology.Endpoint{Addr: onA.Addr(), Node: fmt.Sprint("n", j), Serving: true, Terminating: j%2 == 0})
		}
		h.SetSlice(after(10+i), web, s)
	}
	got = h.Explain(told, frontend, Span{From: after(7), To: after(300)})
	if n := len(got); n > 8000 {
		t.Errorf("it says %d bytes", n)
	}
	for _, want := range []string{"older ones", "194 more]", "and more", "serving and terminating"} {
		if !strings.Contains(got, want) {
			t.Errorf("of much, it lacks %q:\n%s", want, got)
		}
	}
}
