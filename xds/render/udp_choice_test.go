package render

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/topology"
)

// udpWorld is Services seen from node a-1 of unit a.
type udpWorld struct {
	*topology.Builder
	viewer *topology.Viewer
	cats   *Cataloger
}

func newUDPWorld(preload int) *udpWorld {
	w := &udpWorld{topology.NewBuilder(), topology.NewViewer("a-1", topology.Options{}), NewCataloger(Default(), preload)}
	w.SetNode(&topology.Node{Name: "a-1", Labels: map[string]string{"unit": "a"}})
	w.SetNode(&topology.Node{Name: "b-1", Labels: map[string]string{"unit": "b"}})
	return w
}

func (w *udpWorld) next() (*Catalog, Changed) { return w.cats.Next(w.viewer.See(w.Build()), false) }

const unitOnly = `["unit"]`

// service sets a Service 10.96.0.N with ports of one protocol, and an endpoint
// on each node.
func (w *udpWorld) service(key topology.ObjectKey, n byte, keys string, protocol topology.Protocol, ports []uint16, nodes ...string) {
	s := &topology.Service{Key: key, ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 0, n})}}
	if keys != "" {
		s.TopologyKeys = &keys
	}
	slice := &topology.Slice{Key: key, Service: key.Name}
	for _, port := range ports {
		name := fmt.Sprint("p", port)
		s.Ports = append(s.Ports, topology.ServicePort{Name: name, Protocol: protocol, Port: port})
		slice.Ports = append(slice.Ports, topology.SlicePort{Name: name, Protocol: protocol, Port: 8080})
	}
	for i, node := range nodes {
		slice.Endpoints = append(slice.Endpoints, topology.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 1, n, byte(i + 1)}), Node: node, Ready: true, Serving: true})
	}
	w.SetService(s)
	w.SetSlice(slice)
}

func named(name string) topology.ObjectKey {
	return topology.ObjectKey{Namespace: "default", Name: name}
}

// udpListeners are the listeners of UDP, without their prefix.
func udpListeners(c *Catalog) (list []string) {
	for _, name := range c.Wildcard(ListenerType) {
		if address, is := strings.CutPrefix(name, udpPrefix); is {
			list = append(list, address)
		}
	}
	return list
}

// A UDP listener is a socket on the node: only who needs one has one, and who
// gets none is told so.
func TestUDPListeners(t *testing.T) {
	for what, tc := range map[string]struct {
		key    topology.ObjectKey
		keys   string
		port   uint16
		nodes  []string
		serves bool
		says   string
	}{
		"an endpoint in the unit":         {named("s"), unitOnly, 80, []string{"a-1"}, true, ""},
		"endpoints elsewhere, open":       {named("s"), `["unit","*"]`, 80, []string{"b-1"}, true, ""},
		"endpoints elsewhere, closed":     {named("s"), unitOnly, 80, []string{"b-1"}, false, ""},
		"no endpoints":                    {named("s"), unitOnly, 80, nil, false, ""},
		"no keys":                         {named("s"), "", 80, []string{"a-1"}, false, "notice: service default/s: spec.ports: 10.96.0.9:80/udp is refused: UDP is served for Services with topologyKeys only"},
		"no keys and no endpoints":        {named("s"), "", 80, nil, false, ""},
		"the port of a tunnel":            {named("s"), unitOnly, 8472, []string{"a-1"}, false, "problem: service default/s: spec.ports: 10.96.0.9:8472/udp is refused: the port is the node's own (VXLAN)"},
		"the port of another":             {named("s"), unitOnly, 51820, []string{"a-1"}, false, "(WireGuard)"},
		"the port of DHCP":                {named("s"), unitOnly, 68, []string{"a-1"}, false, "(DHCP)"},
		"the cluster's DNS":               {topology.ObjectKey{Namespace: names.SystemNamespace, Name: names.DNSService}, "", 53, []string{"b-1"}, true, ""},
		"a tenant's of the name kube-dns": {named(names.DNSService), "", 53, []string{"b-1"}, false, "notice: service default/kube-dns: "},
	} {
		w := newUDPWorld(500)
		w.service(tc.key, 9, tc.keys, topology.UDP, []uint16{tc.port}, tc.nodes...)
		cat, changed := w.next()
		address := fmt.Sprintf("10.96.0.9:%d", tc.port)
		if got := udpListeners(cat); slices.Equal(got, []string{address}) != tc.serves || !tc.serves && len(got) > 0 {
			t.Errorf("%s: listeners %v", what, got)
		}
		if got := cat.Preloaded(address + udpSuffix); got != tc.serves {
			t.Errorf("%s: preloaded %v: udp_proxy has no way to ask for its cluster", what, got)
		}
		if tc.serves && (!slices.Contains(changed[ListenerType], udpPrefix+address) || !slices.Contains(changed[ClusterType], address+udpSuffix)) {
			t.Errorf("%s: changed %v", what, changed)
		}
		var said []string
		for _, p := range cat.Problems {
			said = append(said, "problem: "+p.String())
		}
		for _, n := range cat.Notices { // nobody made a mistake
			said = append(said, "notice: "+n.String())
		}
		if text := strings.Join(said, "\n"); (tc.says == "") != (text == "") || !strings.Contains(text, tc.says) {
			t.Errorf("%s: says %q, want %q", what, text, tc.says)
		}
	}
}

// However many UDP ports there are, a node has a bounded number of sockets for
// them, everybody who is left out is told so, and TCP keeps its room.
func TestUDPListenersAreBounded(t *testing.T) {
	w := newUDPWorld(3)
	ports := make([]uint16, 3000)
	for i := range ports {
		ports[i] = uint16(20000 + i)
	}
	for n := range byte(10) { // of two namespaces
		w.service(topology.ObjectKey{Namespace: []string{"default", "shop"}[n%2], Name: fmt.Sprint("many", n)}, 9+n, unitOnly, topology.UDP, ports, "a-1")
	}
	for n := range byte(3) {
		w.service(named(fmt.Sprint("web", n)), 20+n, unitOnly, topology.TCP, []uint16{80}, "a-1")
	}
	cat, _ := w.next()
	if got := udpListeners(cat); len(got) != Default().MaxUDP {
		t.Errorf("%d listeners, want %d", len(got), Default().MaxUDP)
	}
	for n := range 3 {
		if name := fmt.Sprintf("10.96.0.%d:80", 20+n); !cat.Preloaded(name) {
			t.Errorf("%s was pushed out", name)
		}
	}
	says := func(want ...string) {
		t.Helper()
		ok := len(cat.Problems) == len(want)
		for i := range min(len(want), len(cat.Problems)) {
			ok = ok && strings.HasPrefix(cat.Problems[i].Text, want[i])
		}
		if !ok {
			t.Errorf("problems %v", cat.Problems)
		}
	}
	says("29900 UDP ports are refused, for a namespace has 50 UDP listeners of a node at most: of service default/many0, default/many2, default/many4, default/many6, default/many8 and others;")

	// Who has a listener keeps it; a place that is free goes to who waits.
	first := topology.ObjectKey{Namespace: "aaa", Name: "first"}
	w.service(first, 7, unitOnly, topology.UDP, []uint16{90}, "a-1")
	if cat, _ = w.next(); slices.Contains(udpListeners(cat), "10.96.0.7:90") {
		t.Error("one that came later took the place of another")
	}
	says("29900 UDP ports are refused, for a namespace", "1 UDP ports are refused, for a node has 100 UDP listeners at most: of service aaa/first;")
	w.DeleteService(topology.ObjectKey{Namespace: "default", Name: "many0"})
	w.DeleteSlice(topology.ObjectKey{Namespace: "default", Name: "many0"})
	cat, _ = w.next()
	if got := udpListeners(cat); !slices.Contains(got, "10.96.0.7:90") || len(got) != 100 {
		t.Errorf("%d listeners, problems %v", len(got), cat.Problems)
	}
}

// One Service with many ports, made last and named first, takes nothing from
// others, not when the agent starts again either; and neither does a namespace
// with many Services.
func TestUDPListenersAreShared(t *testing.T) {
	w := newUDPWorld(500)
	w.service(named("voice"), 1, unitOnly, topology.UDP, []uint16{5060}, "a-1")
	w.next()
	ports := make([]uint16, 100)
	for i := range ports {
		ports[i] = uint16(20000 + i)
	}
	evil := func(n byte) {
		w.service(topology.ObjectKey{Namespace: "aaa", Name: fmt.Sprint("evil", n)}, 2+n, unitOnly, topology.UDP, ports, "a-1")
	}
	look := func(when string, want int, says string) {
		t.Helper()
		cat, _ := w.next()
		got := udpListeners(cat)
		if !slices.Contains(got, "10.96.0.1:5060") || len(got) != 1+want {
			t.Errorf("%s: %d listeners, the first Service's among them: %v", when, len(got), slices.Contains(got, "10.96.0.1:5060"))
		}
		if len(cat.Problems) != 1 || !strings.Contains(cat.Problems[0].Text, says) {
			t.Errorf("%s: problems %v", when, cat.Problems)
		}
	}
	restart := func() { w.viewer, w.cats = topology.NewViewer("a-1", topology.Options{}), NewCataloger(Default(), 500) }
	evil(0)
	look("one Service", maxServiceUDP, "84 UDP ports are refused, for a Service has 16 UDP listeners of a family at most: of service aaa/evil0;")
	restart()
	look("one Service, after a restart", maxServiceUDP, "84 UDP ports")
	for n := range byte(9) {
		evil(n)
	}
	restart()
	look("a namespace, after a restart", 50, "a namespace has 50 UDP listeners of a node at most")
}

// A listener that went and came back would share its packets with the one that
// still drains: it stays while its endpoints come and go.
func TestUDPListenerOutlivesItsEndpoints(t *testing.T) {
	w := newUDPWorld(500)
	for i, step := range []struct {
		keys   string
		nodes  []string
		serves bool
	}{
		{unitOnly, nil, false}, {unitOnly, []string{"a-1"}, true}, {unitOnly, nil, true}, {unitOnly, []string{"a-1"}, true}, {"", []string{"a-1"}, false},
	} {
		w.service(named("s"), 9, step.keys, topology.UDP, []uint16{80}, step.nodes...)
		cat, changed := w.next()
		if got := len(udpListeners(cat)) == 1; got != step.serves {
			t.Errorf("step %d: a listener: %v", i, got)
		}
		if again := i == 2 || i == 3; again && len(changed[ListenerType]) > 0 {
			t.Errorf("step %d: changed %v", i, changed)
		}
	}
	w.DeleteService(named("s"))
	w.DeleteSlice(named("s"))
	if cat, _ := w.next(); len(udpListeners(cat)) != 0 || len(cat.Problems) != 0 {
		t.Errorf("listeners %v, problems %v of a Service that is gone", udpListeners(cat), cat.Problems)
	}
}

// What is said stays short, however many Services there are to be named.
func TestUDPProblemsAreBounded(t *testing.T) {
	w := newUDPWorld(500)
	for n := range byte(100) {
		w.service(named(fmt.Sprintf("s%03d", n)), n, "", topology.UDP, []uint16{80, 81, 82}, "a-1")
		w.service(named(fmt.Sprintf("t%03d", n)), 100+n, unitOnly, topology.UDP, []uint16{67, 68, 546}, "a-1")
	}
	cat, _ := w.next()
	for what, list := range map[string][]topology.Problem{"problems": cat.Problems, "notices": cat.Notices} {
		if len(list) != maxUDPProblems+1 || !strings.Contains(list[0].Text, "and 2 more of its UDP ports") || !strings.Contains(list[maxUDPProblems].Text, "50 Services more") {
			t.Errorf("%d %s: %v", len(list), what, list)
		}
	}
}
