// Package topologytest makes random histories of clusters, for the laws that
// views and their renderers obey.
package topologytest

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/gridmesh/gridmesh/topology"
)

// New starts a world from a seed.
func New(seed uint64) *World {
	return &World{Rand: rand.New(rand.NewPCG(seed, 1)), Builder: topology.NewBuilder(), besides: rand.New(rand.NewPCG(seed, 2)), numbers: rand.New(rand.NewPCG(seed, 3)), votes: rand.New(rand.NewPCG(seed, 4))}
}

// World changes at random: a few of everything, so that histories collide.
type World struct {
	*rand.Rand
	Builder *topology.Builder
	besides *rand.Rand // what lies besides ClusterIPs, whose histories stay the same
	numbers *rand.Rand // of ports in slices, likewise
	votes   *rand.Rand // of who is dead, likewise
	dead    []string
	// SCTP gives every Service and slice a port of it, too.
	SCTP bool
}

func (w *World) pick(list ...string) string { return list[w.IntN(len(list))] }

func (w *World) serviceKey() topology.ObjectKey {
	return topology.ObjectKey{Namespace: "default", Name: fmt.Sprintf("s%d", w.IntN(6))}
}

// Step makes one change.
func (w *World) Step() {
	switch w.IntN(10) {
	case 0, 1:
		w.Builder.SetService(w.service())
	case 2:
		w.Builder.DeleteService(w.serviceKey())
	case 3, 4, 5:
		w.Builder.SetSlice(w.slice())
	case 6:
		w.Builder.DeleteSlice(topology.ObjectKey{Namespace: "default", Name: fmt.Sprintf("x%d", w.IntN(8))})
	case 7, 8:
		w.Builder.SetNode(w.node())
	case 9:
		w.Builder.DeleteNode(fmt.Sprintf("n%d", w.IntN(5)))
	}
}

// Snapshot is what was made so far, with nodes that a vote calls dead, now and then others.
func (w *World) Snapshot() *topology.Snapshot {
	if w.votes.IntN(3) == 0 {
		w.dead = nil
		for range w.votes.IntN(4) {
			w.dead = append(w.dead, fmt.Sprintf("n%d", w.votes.IntN(6))) // n5 is none
		}
	}
	return w.Builder.Build().WithDead(w.dead)
}

func (w *World) service() *topology.Service {
	key := w.serviceKey()
	s := &topology.Service{
		Key:           key,
		ClusterIPs:    []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 0, byte(w.IntN(7))})},
		Ports:         []topology.ServicePort{{Name: "a", Protocol: topology.TCP, Port: 80}, {Name: "b", Protocol: topology.UDP, Port: uint16(53 + w.IntN(2))}},
		InternalLocal: w.IntN(5) == 0,
	}
	if w.IntN(3) > 0 {
		text := w.pick(`["site"]`, `["site","zone"]`, `["zone","*"]`, `["site","zone","*"]`, `["*"]`, `[]`, `oops`, `["*","site"]`, `["site","site"]`)
		s.TopologyKeys = &text
	}
	if w.IntN(3) == 0 {
		s.ClusterIPs = append(s.ClusterIPs, netip.MustParseAddr(fmt.Sprintf("fd00::%d", 1+w.IntN(5))))
	}
	if w.SCTP {
		s.Ports = append(s.Ports, topology.ServicePort{Name: "c", Protocol: topology.SCTP, Port: 80})
	}
	if w.numbers.IntN(2) == 0 { // like another, or not
		s.Ports = append(s.Ports, topology.ServicePort{Name: "d", Protocol: topology.TCP, Port: 443})
	}
	w.expose(s)
	if w.IntN(5) == 0 {
		s.Headless, s.ClusterIPs = true, nil
	}
	if w.IntN(2) == 0 {
		s.GridKey = "site"
	}
	return s
}

// expose gives a Service addresses and node ports of few, so that Services
// quarrel about them, and about ClusterIPs.
func (w *World) expose(s *topology.Service) {
	r := w.besides
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	if r.IntN(3) == 0 {
		s.Ports[r.IntN(2)].NodePort = uint16(30000 + r.IntN(3))
	}
	s.Created = int64(r.IntN(3)) // some of one second
	if r.IntN(3) == 0 {
		s.Datapath = topology.Datapath(r.IntN(4))
	}
	if r.IntN(4) == 0 {
		s.Affinity = uint32(10 * (1 + r.IntN(2)))
	}
	if r.IntN(2) == 0 {
		return
	}
	x := &topology.Exposure{Local: r.IntN(2) == 0}
	for range r.IntN(3) {
		x.ExternalIPs = append(x.ExternalIPs, netip.MustParseAddr(pick("192.0.2.1", "192.0.2.2", "10.96.0.1", "fd00::1", "2001:db8::1")))
	}
	for range r.IntN(2) {
		x.LoadBalancers = append(x.LoadBalancers, netip.MustParseAddr(pick("192.0.2.1", "192.0.2.3", "2001:db8::1")))
	}
	for range r.IntN(2) {
		x.Sources = append(x.Sources, netip.MustParsePrefix(pick("10.0.0.0/8", "fd00::/8")))
	}
	if x.Local && r.IntN(2) == 0 {
		x.HealthCheckNodePort = 32000
	}
	s.Exposure = x
}

func (w *World) slice() *topology.Slice {
	s := &topology.Slice{
		Key:     topology.ObjectKey{Namespace: "default", Name: fmt.Sprintf("x%d", w.IntN(8))},
		Service: w.serviceKey().Name,
		IPv6:    w.IntN(4) == 0,
		Ports:   []topology.SlicePort{{Name: "a", Protocol: topology.TCP, Port: 8080}, {Name: "b", Protocol: topology.UDP, Port: 5353}},
	}
	if w.SCTP {
		s.Ports = append(s.Ports, topology.SlicePort{Name: "c", Protocol: topology.SCTP, Port: 7000})
	}
	if r := w.numbers; r.IntN(3) > 0 {
		s.Ports[0].Port += uint16(r.IntN(3))
		s.Ports = append(s.Ports, topology.SlicePort{Name: "d", Protocol: topology.TCP, Port: uint16(8080 + r.IntN(4))})
	}
	for range w.IntN(5) {
		ep := topology.Endpoint{
			Addr:  netip.AddrFrom4([4]byte{10, 244, 0, byte(w.IntN(12))}),
			Node:  w.pick("n0", "n1", "n2", "n3", "n4", ""),
			Ready: w.IntN(3) > 0, Serving: w.IntN(3) > 0, Terminating: w.IntN(3) == 0,
		}
		if s.IPv6 {
			ep.Addr = netip.MustParseAddr(fmt.Sprintf("fd00:244::%x", w.IntN(12)))
		}
		if w.IntN(2) == 0 {
			ep.Hostname = w.pick("db-u0-0", "db-u1-0", "db-u1-1", "my-db-u2-0", "u1-0")
		}
		if w.IntN(2) == 0 {
			ep.HintZones = []string{w.pick("z0", "z1")}
		}
		if w.IntN(4) == 0 {
			ep.HintNodes = []string{w.pick("n0", "n1")}
		}
		s.Endpoints = append(s.Endpoints, ep)
	}
	return s
}

func (w *World) node() *topology.Node {
	n := &topology.Node{Name: fmt.Sprintf("n%d", w.IntN(5)), Labels: map[string]string{"topology.kubernetes.io/zone": w.pick("z0", "z1")}}
	for _, key := range []string{"site", "zone"} {
		if w.IntN(4) > 0 {
			n.Labels[key] = w.pick("u0", "u1", "u2", "") // an empty one is no unit
		}
	}
	return n
}
