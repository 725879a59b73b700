package model

import (
	"net/netip"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// Who answers may not change while nothing does that it depends on, and for no longer
// than the affinity lasts.
func TestAffinity(t *testing.T) {
	sticky := service("")
	sticky.Affinity = 30
	begin := func() (*History, *Told) {
		h, told := told(t)
		h.SetService(after(5), web, sticky)
		see(h, told, 6)
		return h, told
	}
	span := Span{From: after(10), To: after(12)}
	h, told := begin()
	if got, ok := h.Affinity(told, frontend, span); !ok || got != 30*time.Second {
		t.Errorf("of what did not change: %s, %v", got, ok)
	}
	for what, f := range map[string]func(h *History, told *Told, s *Span){
		"before it was told":     func(_ *History, _ *Told, s *Span) { s.From = after(3) },
		"a held one":             func(_ *History, _ *Told, s *Span) { s.Held = after(3) },
		"an endpoint goes":       func(h *History, _ *Told, _ *Span) { h.SetSlice(after(11), web, slice("a")) },
		"a node moves":           func(h *History, _ *Told, _ *Span) { h.SetNode(after(11), "b", node("b", "u")) },
		"versions may be unseen": func(h *History, _ *Told, _ *Span) { h.Missed(after(8), after(11)) },
		"an agent that forgot": func(h *History, told *Told, _ *Span) {
			b := topology.NewBuilder()
			b.SetService(service(""))
			told.Saw(h, after(11), b.Build())
		},
		"no affinity": func(h *History, told *Told, _ *Span) { h.SetService(after(7), web, service("")); see(h, told, 8) },
		"no Service":  func(h *History, told *Told, _ *Span) { h.SetService(after(7), web, nil); see(h, told, 8) },
	} {
		h, told := begin()
		s := span
		f(h, told, &s)
		if got, ok := h.Affinity(told, frontend, s); ok {
			t.Errorf("%s: kept for %s", what, got)
		}
	}
	if _, ok := h.Affinity(told, topology.Frontend{Addr: onA.Addr(), Port: 80, Protocol: topology.TCP}, span); ok {
		t.Error("an address of no Service keeps who answers")
	}
}

// A node port may be answered by whom its Service may be, on a node that serves such.
func TestNodePorts(t *testing.T) {
	h, told := told(t)
	open := service(`["unit"]`)
	open.Ports[0].NodePort = 30080
	h.SetService(after(3), web, open)
	see(h, told, 4)
	span, at := Span{From: after(5), To: after(6)}, topology.Frontend{Addr: netip.IPv4Unspecified(), Port: 30080, Protocol: topology.TCP}
	if h.Allowed(told, at, onA, span) {
		t.Error("a node without a kernel path serves a node port")
	}
	told.Options.Datapath = topology.DatapathAuto
	h.known = map[string]bool{}
	other := at
	other.Port++
	for what, tc := range map[string]struct {
		f    topology.Frontend
		end  netip.AddrPort
		want bool
	}{
		"its unit's": {at, onA, true}, "another unit's": {at, onB, false}, "another port": {other, onA, false},
		"another protocol": {topology.Frontend{Addr: at.Addr, Port: at.Port, Protocol: topology.UDP}, onA, false},
	} {
		if got := h.Allowed(told, tc.f, tc.end, span); got != tc.want {
			t.Errorf("%s: %v", what, got)
		}
	}
	// internalTrafficPolicy says nothing of node ports: packets may go to the other node.
	internal := service("")
	internal.InternalLocal, internal.Ports[0].NodePort = true, 30080
	h.SetService(after(7), web, internal)
	see(h, told, 8)
	late := Span{From: after(9), To: after(10)}
	if h.Allowed(told, frontend, onB, late) || !h.Allowed(told, at, onB, late) || !h.AllowedNode(told, "b", late) {
		t.Error("a node port is taken for internal")
	}
}
