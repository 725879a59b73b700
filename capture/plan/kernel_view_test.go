package plan

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

// What the kernel path gets of a Service, by the node's choice: everything, and
// what Envoy takes before. Where there is no kernel path the rest is nobody's.
func TestKernelOf(t *testing.T) {
	b := topology.NewBuilder()
	key, keys := topology.ObjectKey{Namespace: "default", Name: "web"}, `["unit"]`
	for _, n := range []string{"a", "b"} {
		b.SetNode(&topology.Node{Name: n, Labels: map[string]string{"unit": n}})
	}
	b.SetService(&topology.Service{
		Key: key, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")}, TopologyKeys: &keys,
		Exposure: &topology.Exposure{Local: true, LoadBalancers: []netip.Addr{netip.MustParseAddr("203.0.113.1")}, Sources: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
		Ports: []topology.ServicePort{
			{Name: "t", Protocol: topology.TCP, Port: 80, NodePort: 30080},
			{Name: "u", Protocol: topology.UDP, Port: 53},
		},
	})
	end := func(addr, node string, ready bool) topology.Endpoint {
		return topology.Endpoint{Addr: netip.MustParseAddr(addr), Node: node, Ready: ready, Serving: true, Terminating: !ready}
	}
	b.SetSlice(&topology.Slice{
		Key: key, Service: "web", Ports: []topology.SlicePort{{Name: "t", Protocol: topology.TCP, Port: 8080}, {Name: "u", Protocol: topology.UDP, Port: 8053}},
		Endpoints: []topology.Endpoint{end("10.244.0.1", "a", true), end("10.244.0.2", "a", false), end("10.244.9.1", "b", true)},
	})
	for _, c := range []struct {
		opts topology.Options
		want string
	}{
		{topology.Options{}, "10.96.0.1:53/udp 10.244.0.1:8053; 10.96.0.1:80/tcp 10.244.0.1:8080"},
		{topology.Options{Datapath: topology.DatapathAuto}, "10.96.0.1:53/udp 10.244.0.1:8053 serving 10.244.0.2:8053; 10.96.0.1:80/tcp 10.244.0.1:8080; " +
			"0.0.0.0:30080/tcp 10.244.0.1:8080 local 10.244.0.1:8080 from []; 203.0.113.1:53/udp 10.244.0.1:8053 serving 10.244.0.2:8053 local 10.244.0.1:8053 from [192.0.2.0/24]; " +
			"203.0.113.1:80/tcp 10.244.0.1:8080 local 10.244.0.1:8080 from [192.0.2.0/24]"},
	} {
		sv, _ := topology.See(b.Build(), "a", c.opts).Service(key)
		var got []string
		for _, f := range KernelOf(sv) {
			text := fmt.Sprintf("%s %s", f.Frontend, strings.Trim(fmt.Sprint(f.Tiers), "[]"))
			if len(f.Serving) > 0 {
				text += " serving " + strings.Trim(fmt.Sprint(f.Serving), "[]")
			}
			if x := f.Outside; x != nil {
				text += fmt.Sprintf(" local %s from %v", strings.Trim(fmt.Sprint(x.LocalTiers), "[]"), x.Sources)
			}
			got = append(got, text)
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%v: got\n%s\nwant\n%s", c.opts, text, c.want)
		}
	}
	if KernelOf(nil) != nil {
		t.Error("a Service that is gone has frontends")
	}
}

// The capture's own sets hold what Envoy serves, and guard all of it. A pod meets itself also at
// what the kernel serves: by a connection that Envoy was handed before.
func TestPlanOfTwoPaths(t *testing.T) {
	b := topology.NewBuilder()
	for name, keys := range map[string]*string{"plain": nil, "keyed": func() *string { s := `["*"]`; return &s }()} {
		key := topology.ObjectKey{Namespace: "default", Name: name}
		b.SetService(&topology.Service{Key: key, ClusterIPs: []netip.Addr{netip.MustParseAddr(map[string]string{"plain": "10.96.0.1", "keyed": "10.96.0.2"}[name])}, TopologyKeys: keys, Ports: []topology.ServicePort{{Protocol: topology.TCP, Port: 80}}})
		b.SetSlice(&topology.Slice{Key: key, Service: name, Ports: []topology.SlicePort{{Protocol: topology.TCP, Port: 8080}}, Endpoints: []topology.Endpoint{{Addr: netip.MustParseAddr("10.244.0.1"), Node: "a", Ready: true, Serving: true}}})
	}
	cfg := Default()
	cfg.PodCIDRs = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24")}
	for datapath, want := range map[topology.Datapath]string{topology.DatapathNone: "[10.96.0.1:80/tcp 10.96.0.2:80/tcp]", topology.DatapathAuto: "[10.96.0.2:80/tcp]", topology.DatapathKernel: "[]"} {
		p := Of(topology.See(b.Build(), "a", topology.Options{Datapath: datapath}), cfg)
		if got := fmt.Sprint(p.Hairpin); got != "[10.244.0.1]" {
			t.Errorf("%q: %s may meet themselves", datapath, got)
		}
		if got := fmt.Sprint(p.Serve); got != want || fmt.Sprint(p.Guard) != "[10.96.0.1/32 10.96.0.2/32]" {
			t.Errorf("%q: serves %s, want %s; guards %v", datapath, got, want, p.Guard)
		}
	}
}

// Clients from elsewhere are remembered where they are led to, and nowhere else is there
// room for many: for the node's own there is a memory besides.
func TestCrowdOf(t *testing.T) {
	on := func(path topology.Path, local bool) topology.Outside {
		return topology.Outside{Path: path, Local: local}
	}
	for _, c := range []struct {
		list             []topology.Outside
		want             Crowd
		anywhere, onNode int
	}{
		{nil, NoCrowd, fewClients, fewClients},
		{[]topology.Outside{on(topology.PathNone, false)}, NoCrowd, fewClients, fewClients},
		{[]topology.Outside{on(topology.PathKernel, false)}, CrowdAnywhere, manyClients, fewClients},
		{[]topology.Outside{on(topology.PathNone, false), on(topology.PathKernel, true)}, CrowdHere, fewClients, manyClients},
		{[]topology.Outside{on(topology.PathKernel, true), on(topology.PathKernel, false)}, CrowdAnywhere, manyClients, fewClients},
	} {
		f := KernelFrontend{Frontend: front("10.96.0.1:80", topology.TCP), Crowd: crowdOf(c.list)}
		if f.Crowd != c.want || f.memory(false).Clients() != c.anywhere || f.memory(true).Clients() != c.onNode {
			t.Errorf("%v: crowd %v, room for %d, and for %d on the node", c.list, f.Crowd, f.memory(false).Clients(), f.memory(true).Clients())
		}
	}
}

// Where others are left the kernel path leads nobody to an endpoint that is voted dead, and
// has flows of UDP to it forgotten; where none is, all stays.
func TestTheDeadComeLast(t *testing.T) {
	b := topology.NewBuilder()
	key, keys := topology.ObjectKey{Namespace: "default", Name: "web"}, `["unit","*"]`
	for _, n := range []string{"a-1", "a-2", "b-1"} {
		b.SetNode(&topology.Node{Name: n, Labels: map[string]string{"unit": n[:1]}})
	}
	service := func(keys *string) {
		b.SetService(&topology.Service{
			Key: key, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")}, TopologyKeys: keys,
			Ports: []topology.ServicePort{{Protocol: topology.UDP, Port: 53}},
		})
	}
	end := func(addr, node string) topology.Endpoint {
		return topology.Endpoint{Addr: netip.MustParseAddr(addr), Node: node, Ready: true, Serving: true}
	}
	b.SetSlice(&topology.Slice{
		Key: key, Service: "web", Ports: []topology.SlicePort{{Protocol: topology.UDP, Port: 53}},
		Endpoints: []topology.Endpoint{end("10.244.0.1", "a-1"), end("10.244.0.2", "a-2"), end("10.244.9.1", "b-1")},
	})
	frontend := front("10.96.0.1:53", topology.UDP)
	for _, c := range []struct {
		keys  *string
		dead  []string
		slots string
		flows string // that live on
	}{
		{&keys, nil, "[10.244.0.1:53 10.244.0.2:53]", "[10.244.0.1:53 10.244.0.2:53 10.244.9.1:53]"},
		{&keys, []string{"a-2"}, "[10.244.0.1:53]", "[10.244.0.1:53 10.244.9.1:53]"},
		{&keys, []string{"a-1", "a-2"}, "[10.244.0.1:53 10.244.0.2:53]", "[10.244.0.1:53 10.244.0.2:53 10.244.9.1:53]"}, // the other is far
		{&keys, []string{"a-1", "a-2", "b-1"}, "[10.244.0.1:53 10.244.0.2:53]", "[10.244.0.1:53 10.244.0.2:53 10.244.9.1:53]"},
		{nil, []string{"a-2"}, "[10.244.0.1:53 10.244.9.1:53]", "[10.244.0.1:53 10.244.9.1:53]"},
	} {
		service(c.keys)
		sv, _ := topology.See(b.Build().WithDead(c.dead), "a-1", topology.Options{Datapath: topology.DatapathAuto}).Service(key)
		p := kernelPlanner()
		p.Set(key.String(), KernelOf(sv))
		change := p.Settle()
		if got := fmt.Sprint(p.held[frontend].slots); got != c.slots {
			t.Errorf("dead %v: leads to %s, want %s", c.dead, got, c.slots)
		}
		var flows []netip.AddrPort
		for _, addr := range []string{"10.244.0.1:53", "10.244.0.2:53", "10.244.9.1:53"} {
			to := netip.MustParseAddrPort(addr)
			if !change.UDP.Stale(UDPFlow{Dialled: frontend.AddrPort(), Answerer: to}) {
				flows = append(flows, to)
			}
		}
		if got := fmt.Sprint(flows); got != c.flows {
			t.Errorf("dead %v: flows to %s live on, want %s", c.dead, got, c.flows)
		}
	}
}
