package healthport

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

// services are Services of which load balancers ask.
type services struct {
	*topology.Builder
	viewer *topology.Viewer
}

func newServices() *services {
	b := topology.NewBuilder()
	for _, name := range []string{"a", "b"} {
		b.SetNode(&topology.Node{Name: name})
	}
	return &services{b, topology.NewViewer("a", topology.Options{Datapath: topology.DatapathKernel})}
}

func (s *services) view() *topology.View { return s.viewer.See(s.Build()) }

func key(name string) topology.ObjectKey {
	return topology.ObjectKey{Namespace: "default", Name: name}
}

// put sets a Service of these ClusterIPs with a health check port, 0 for none.
func (s *services) put(name string, port uint16, ips ...string) {
	s.putOf(key(name), 0, port, ips...)
}

// putOf is put of any namespace, with when it was made.
func (s *services) putOf(key topology.ObjectKey, created int64, port uint16, ips ...string) {
	service := &topology.Service{Key: key, Created: created, Ports: []topology.ServicePort{{Protocol: topology.TCP, Port: 80, NodePort: 30000 + port%1000}}}
	for _, ip := range ips {
		service.ClusterIPs = append(service.ClusterIPs, netip.MustParseAddr(ip))
	}
	if port != 0 {
		service.Exposure = &topology.Exposure{Local: true, HealthCheckNodePort: port, LoadBalancers: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}
	}
	s.SetService(service)
}

// endpoints sets those of a Service, "node address", of one family.
func (s *services) endpoints(name string, list ...string) {
	slice := &topology.Slice{Key: key(name), Service: name, Ports: []topology.SlicePort{{Protocol: topology.TCP, Port: 8080}}}
	for _, e := range list {
		node, addr, _ := strings.Cut(e, " ")
		ip := netip.MustParseAddr(addr)
		if slice.IPv6 = ip.Is6(); slice.IPv6 {
			slice.Key = key(name + "-6")
		}
		slice.Endpoints = append(slice.Endpoints, topology.Endpoint{Addr: ip, Node: node, Ready: true, Serving: true})
	}
	s.SetSlice(slice)
}

// text is the places, sorted, "port family service: n".
func text(places map[Place]Answer) string {
	var list []string
	for p, a := range places {
		list = append(list, fmt.Sprintf("%d %s %s: %d", p.Port, p.network(), a.Service.Name, a.Local))
	}
	slices.Sort(list)
	return strings.Join(list, "; ")
}

// Each family is asked at a place of its own, and is told of its own endpoints on
// this node.
func TestPlaces(t *testing.T) {
	s, x := newServices(), NewIndex(nil, boundsOf(1<<20))
	s.put("dual", 32001, "10.96.0.1", "fd00:96::1")
	s.endpoints("dual", "a 10.244.0.1", "a 10.244.0.2", "b 10.244.1.1")
	s.endpoints("dual", "a fd00::1", "b fd00::2")
	s.put("elsewhere", 32002, "10.96.0.2")
	s.endpoints("elsewhere", "b 10.244.1.2")
	s.put("quiet", 0, "10.96.0.3")
	x.Next(s.view())
	places, problems := x.Places(), x.Problems()
	if got, want := text(places), "32001 tcp4 dual: 2; 32001 tcp6 dual: 1; 32002 tcp4 elsewhere: 0"; got != want || len(problems) > 0 {
		t.Errorf("%s, want %s; %v", got, want, problems)
	}
	s.endpoints("elsewhere", "a 10.244.0.3", "b 10.244.1.2")
	s.put("dual", 32003, "10.96.0.1", "fd00:96::1")
	if x.Next(s.view()); text(x.Places()) != "32002 tcp4 elsewhere: 1; 32003 tcp4 dual: 2; 32003 tcp6 dual: 1" {
		t.Errorf("of others: %s", text(x.Places()))
	}
	s.DeleteService(key("dual"))
	s.put("elsewhere", 0, "10.96.0.2")
	if x.Next(s.view()); len(x.Places()) > 0 {
		t.Errorf("of none: %s", text(x.Places()))
	}
}

// A change of a Service without a port changes nothing.
func TestPlacesOfOthersStay(t *testing.T) {
	s, x := newServices(), NewIndex(nil, boundsOf(1<<20))
	s.put("web", 32001, "10.96.0.1")
	if !x.Next(s.view()) {
		t.Error("a new place is no change")
	}
	s.put("quiet", 0, "10.96.0.3")
	if x.Next(s.view()) {
		t.Error("a Service without a port is a change")
	}
}

// A port that two ask for stays with who has it, and the other is told.
func TestAPortOfTwo(t *testing.T) {
	s, x := newServices(), NewIndex(nil, boundsOf(1<<20))
	s.put("web", 32001, "10.96.0.1")
	s.put("web-2", 32002, "10.96.0.2")
	x.Next(s.view())
	s.put("api", 32001, "10.96.0.3")
	x.Next(s.view())
	places, problems := x.Places(), x.Problems()
	if text(places) != "32001 tcp4 web: 0; 32002 tcp4 web-2: 0" {
		t.Error(text(places))
	}
	if len(problems) != 1 || problems[0].Object != "service default/api" || problems[0].Field != "spec.healthCheckNodePort" || !strings.Contains(problems[0].Text, "32001 is service default/web's already") {
		t.Errorf("%v", problems)
	}
	s.DeleteService(key("web"))
	if x.Next(s.view()); text(x.Places()) != "32001 tcp4 api: 0; 32002 tcp4 web-2: 0" || len(x.Problems()) > 0 {
		t.Errorf("once it is free: %s, %v", text(x.Places()), x.Problems())
	}
}

// After a start nobody has a port: the eldest of those who ask gets it, whatever their names.
func TestAPortIsTheEldests(t *testing.T) {
	s, x := newServices(), NewIndex(nil, boundsOf(1<<20))
	for i, created := range []int64{30, 10, 20, 0} {
		s.putOf(key(fmt.Sprintf("web-%d", i)), created, 32001, fmt.Sprintf("10.96.0.%d", 1+i))
	}
	if x.Next(s.view()); text(x.Places()) != "32001 tcp4 web-1: 0" || len(x.Problems()) != 3 {
		t.Errorf("%s, %v", text(x.Places()), x.Problems())
	}
}

// There are so many ports and no more; who has one keeps it.
func TestPortsAreBounded(t *testing.T) {
	s, x := newServices(), NewIndex(nil, boundsOf(1<<20))
	for i := range mostPorts {
		s.putOf(topology.ObjectKey{Namespace: fmt.Sprint("shop-", i%2), Name: fmt.Sprint("web-", i)}, 2, uint16(20000+i), fmt.Sprintf("10.96.%d.%d", i/250, 1+i%250))
	}
	x.Next(s.view())
	s.putOf(key("api"), 1, 32001, "10.97.0.1")
	x.Next(s.view())
	places, problems := x.Places(), x.Problems()
	if _, served := places[Place{Port: 32001}]; served || len(places) != mostPorts || len(problems) != 1 || problems[0].Object != "service default/api" {
		t.Errorf("%d places, %v", len(places), problems)
	}
}

// One namespace leaves ports for others, however many it asks for, and however early.
func TestPortsOfOneNamespaceAreBounded(t *testing.T) {
	s, x := newServices(), NewIndex(nil, boundsOf(1<<20))
	for i := range mostPorts {
		s.putOf(topology.ObjectKey{Namespace: "greedy", Name: fmt.Sprint("web-", i)}, 1, uint16(20000+i), fmt.Sprintf("10.96.%d.%d", i/250, 1+i%250))
	}
	s.putOf(key("api"), 2, 32001, "10.97.0.1")
	x.Next(s.view())
	places, problems := x.Places(), x.Problems()
	if _, served := places[Place{Port: 32001}]; !served || len(places) != (mostPorts/2)+1 || len(problems) != mostPorts-(mostPorts/2) {
		t.Errorf("%d places, %d problems", len(places), len(problems))
	}
}

// A port of the agent's or Envoy's is no Service's.
func TestOwnPortsAreNoServices(t *testing.T) {
	s, x := newServices(), NewIndex(map[uint16]string{10256: "the agent's (--healthz-bind-address)"}, boundsOf(1<<20))
	s.put("web", 10256, "10.96.0.1", "fd00:96::1")
	s.put("api", 32001, "10.96.0.2")
	x.Next(s.view())
	if problems := x.Problems(); text(x.Places()) != "32001 tcp4 api: 0" || len(problems) != 1 || problems[0].Object != "service default/web" || problems[0].Field != "spec.healthCheckNodePort" ||
		!strings.Contains(problems[0].Text, "10256 is the agent's (--healthz-bind-address) on this node") || !strings.Contains(problems[0].Text, "give it another port") {
		t.Errorf("%s, %v", text(x.Places()), problems)
	}
}

// Few descriptors leave few ports, so that the agent has the rest, and who gets none
// reads why.
func TestPortsOfFewDescriptors(t *testing.T) {
	s, x := newServices(), NewIndex(nil, boundsOf(64))
	for i, namespace := range []string{"a", "a", "a", "a", "a", "b", "c", "d", "e", "f"} {
		s.putOf(topology.ObjectKey{Namespace: namespace, Name: fmt.Sprint("web-", i)}, int64(i+1), uint16(32001+i), fmt.Sprintf("10.96.0.%d", 1+i), fmt.Sprintf("fd00:96::%d", 1+i))
	}
	x.Next(s.view())
	problems := x.Problems()
	if len(x.Places()) != 16 || len(problems) != 2 || problems[0].Object != "service a/web-4" || problems[1].Object != "service f/web-9" {
		t.Fatalf("%s, %v", text(x.Places()), problems)
	}
	for _, p := range problems {
		if !strings.Contains(p.Text, "remove some, or raise a limit: the agent may have 64 open files (RLIMIT_NOFILE)") {
			t.Error(p.Text)
		}
	}
}
