package model

import (
	"net/netip"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/node/hold"
	"github.com/gridmesh/gridmesh/topology"
)

// A Service that is made during an outage is answered by a pod that is held for
// another one, whatever its own slice says of it: seed 1, on one core beside
// three processes that spin.
func TestNewServiceIsHeld(t *testing.T) {
	h, told := NewHistory("unit"), NewTold("a-2")
	steady := topology.ObjectKey{Namespace: "default", Name: "steady"}
	keys, pod := `["unit"]`, topology.Endpoint{Addr: onA.Addr(), Node: "a-1", Ready: true, Serving: true}
	lists := func(at int, key topology.ObjectKey, list ...topology.Endpoint) {
		h.SetSlice(after(at), key, &topology.Slice{Key: key, Service: key.Name, Ports: slice().Ports, Endpoints: list})
	}
	h.SetNode(after(1), "a-1", node("a-1", "a"))
	h.SetNode(after(1), "a-2", node("a-2", "a"))
	h.SetService(after(1), steady, &topology.Service{Key: steady, TopologyKeys: &keys, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.9")}})
	lists(1, steady, pod)
	see(h, told, 2)
	base := newest(h)

	// The uplink is away from 3 on.
	h.SetService(after(50), web, service(`["unit","*"]`))
	lists(55, web, topology.Endpoint{Addr: pod.Addr, Node: "a-1", Serving: true, Terminating: true}, // beside a ready one it serves nobody
		topology.Endpoint{Addr: onB.Addr(), Node: "a-2", Ready: true, Serving: true})
	lists(56, steady, topology.Endpoint{Addr: pod.Addr, Node: "a-1"})
	held := hold.New(hold.Start{Base: base, Node: "a-2", Began: after(60)})
	for at := 60; at < 70; at += 5 {
		snap, _ := held.Apply(newest(h), after(at))
		told.Saw(h, after(at), snap)
		if !leads(topology.See(snap, "a-2", topology.Options{}), web, frontend, func(to topology.Target) bool { return to.Addr == onA }) {
			t.Fatalf("at %d a hold leads nowhere, so this shows nothing", at)
		}
		if !h.Allowed(told, frontend, onA, Span{From: after(at - 5), To: after(at + 1), Held: after(2)}) {
			t.Errorf("at %d a node that holds is blamed for what it may hold", at)
		}
		lists(62, steady, pod) // its kubelet has spoken; the other slice is not its own
	}
}

// What a hold excuses, and what it does not.
func TestHeldElsewhere(t *testing.T) {
	keys := `["unit"]`
	for what, tc := range map[string]struct {
		edit func(s *scene)
		want bool
	}{
		"a new Service, beside one that is held":     {func(*scene) {}, true},
		"it holds nothing":                           {func(s *scene) { s.holds = false }, false},
		"the Service was there before":               {func(s *scene) { s.made = 1 }, false},
		"the other was not ready before":             {func(s *scene) { s.before.Ready = false }, false},
		"the other is listed as ready":               {func(s *scene) { s.verdict.Ready = true }, false},
		"the same, and who looks was away meanwhile": {func(s *scene) { s.verdict.Ready, s.gap = true, 40 }, true},
		"the same, away before the outage":           {func(s *scene) { s.verdict.Ready, s.gap = true, 1 }, false},
		"the other is of another namespace":          {func(s *scene) { s.other.Namespace = "elsewhere" }, false},
		"the other is on another port":               {func(s *scene) { s.port = 9090 }, false},
		"the pod is of another unit":                 {func(s *scene) { s.unit = "b" }, false},
		"the new Service does not list the pod":      {func(s *scene) { s.listed = netip.MustParseAddr("10.244.1.9") }, false},
		"the same, listed as not ready and no more":  {func(s *scene) { s.says.Serving, s.says.Terminating = false, false }, true},
	} {
		s := &scene{
			holds: true, made: 50, port: onA.Port(), unit: "a", listed: onA.Addr(), other: topology.ObjectKey{Namespace: "default", Name: "steady"},
			before: topology.Endpoint{Ready: true, Serving: true}, says: topology.Endpoint{Serving: true, Terminating: true},
		}
		tc.edit(s)
		h, told := NewHistory("unit"), NewTold("a-2")
		h.SetNode(after(1), "a-1", node("a-1", s.unit))
		h.SetNode(after(1), "a-2", node("a-2", "a"))
		h.SetService(after(1), s.other, &topology.Service{Key: s.other, TopologyKeys: &keys})
		lists := func(at int, key topology.ObjectKey, port uint16, addr netip.Addr, e topology.Endpoint, others ...topology.Endpoint) {
			e.Addr, e.Node = addr, "a-1"
			h.SetSlice(after(at), key, &topology.Slice{Key: key, Service: key.Name, Ports: []topology.SlicePort{{Protocol: topology.TCP, Port: port}}, Endpoints: append(others, e)})
		}
		lists(1, s.other, s.port, onA.Addr(), s.before)
		if s.made == 1 {
			h.SetService(after(1), web, service(keys))
		}
		see(h, told, 2)
		h.SetService(after(50), web, service(keys))
		lists(55, web, onA.Port(), s.listed, s.says, topology.Endpoint{Addr: onB.Addr(), Node: "a-2", Ready: true, Serving: true})
		lists(56, s.other, s.port, onA.Addr(), s.verdict)
		see(h, told, 60)
		if s.gap > 0 {
			h.Missed(after(s.gap), after(s.gap).Add(time.Second/2))
		}
		span := Span{From: after(61), To: after(62)}
		if s.holds {
			span.Held = after(2)
		}
		if got := h.Allowed(told, frontend, onA, span); got != tc.want {
			t.Errorf("%s: %v, want %v\n%s", what, got, tc.want, h.Explain(told, frontend, span))
		}
	}
}

// scene is a pod that is held for one Service and listed by another.
type scene struct {
	holds                 bool
	gap                   int // who looks is away, from that second for one
	made                  int // the Service, at that second
	port                  uint16
	unit                  string
	listed                netip.Addr
	other                 topology.ObjectKey
	before, verdict, says topology.Endpoint
}
