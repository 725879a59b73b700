package topology_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	. "github.com/gridmesh/gridmesh/topology"
)

// doors is a Service with one port, with three endpoints: one on the own node a1,
// one in its site a, one in site b.
type doors struct {
	*Builder
	ready map[string]bool // node -> its endpoint is ready; else it terminates
}

func newDoors(notReady ...string) *doors {
	d := &doors{NewBuilder(), map[string]bool{}}
	for i, node := range []string{"a1", "a2", "b1"} {
		d.SetNode(&Node{Name: node, Labels: map[string]string{"site": node[:1]}})
		d.ready[node] = !slices.Contains(notReady, node)
		d.SetSlice(&Slice{Key: ObjectKey{"default", "web-" + node}, Service: "web", Ports: []SlicePort{{Protocol: TCP, Port: 8080}}, Endpoints: []Endpoint{
			{Addr: netip.AddrFrom4([4]byte{10, 1, 0, byte(1 + i)}), Node: node, Ready: d.ready[node], Serving: true, Terminating: !d.ready[node]},
		}})
	}
	return d
}

func (d *doors) service(name string, change func(s *Service)) {
	s := &Service{
		Key: ObjectKey{"default", name}, ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 0, byte(len(name))})},
		Ports: []ServicePort{{Protocol: TCP, Port: 80, NodePort: 30080}},
	}
	change(s)
	d.SetService(s)
}

// tell is "1 2 > 3" for endpoints 1 and 2 of 10.1.0.0/24 in the first tier, 3 in
// the second.
func tell(tiers []Tier) string {
	var list []string
	for _, t := range tiers {
		var ends []string
		for _, e := range t.Endpoints {
			ends = append(ends, fmt.Sprint(e.Addr.Addr().As4()[3]))
		}
		list = append(list, strings.Join(ends, " "))
	}
	return strings.Join(list, " > ")
}

// Who is reached by a node port from here, and from outside: kube-proxy's
// policies without keys; with them a Local policy narrows first, then the keys
// make tiers, and a closed Service stays closed, from outside too.
func TestNodePortPolicies(t *testing.T) {
	for name, c := range map[string]struct {
		node, keys string
		local      bool
		notReady   []string
		want       string // tiers; from outside
	}{
		"cluster":                        {"a1", "", false, nil, "1 2 3"},
		"local":                          {"a1", "", true, nil, "1 2 3; 1"},
		"local, only terminating here":   {"a1", "", true, []string{"a1"}, "2 3; 1"},
		"local, terminating everywhere":  {"a2", "", true, []string{"a1", "a2", "b1"}, "1 2 3; 2"},
		"local, none here":               {"c1", "", true, nil, "1 2 3; dropped"},
		"closed":                         {"a1", `["site"]`, false, nil, "1 2"},
		"closed, elsewhere":              {"b1", `["site"]`, false, nil, "3"},
		"closed, no unit":                {"c1", `["site"]`, false, nil, ""},
		"tiers":                          {"a1", `["site","*"]`, false, nil, "1 2 > 3"},
		"closed and local":               {"a2", `["site"]`, true, nil, "1 2; 2"},
		"closed and local, none here":    {"a3", `["site"]`, true, nil, "1 2; dropped"},
		"closed and local, no unit":      {"c1", `["site"]`, true, nil, "; refused"},
		"tiers and local":                {"b1", `["site","*"]`, true, nil, "3 > 1 2; 3"},
		"malformed":                      {"a1", `site`, false, nil, "1"},
		"malformed and local, none here": {"a3", `site`, true, nil, "; refused"},
	} {
		d := newDoors(c.notReady...)
		d.SetNode(&Node{Name: "a3", Labels: map[string]string{"site": "a"}})
		d.SetNode(&Node{Name: "c1"})
		d.service("web", func(s *Service) {
			s.Exposure = &Exposure{Local: c.local}
			if c.keys != "" {
				s.TopologyKeys = &c.keys
			}
		})
		sv, _ := See(d.Build(), c.node, Options{Outside: true}).Service(ObjectKey{"default", "web"})
		o := sv.Outside[0]
		got := tell(o.Tiers)
		switch {
		case o.Local && len(o.LocalTiers) > 0:
			got += "; " + tell(o.LocalTiers)
		case o.Silent:
			got += "; dropped"
		case o.Local:
			got += "; refused"
		}
		if o.String() != "0.0.0.0:30080/tcp" || o.Kind != NodePort || got != c.want {
			t.Errorf("%s: %s of %+v, want %s", name, got, o, c.want)
		}
	}
}

// What several Services ask for is one's, the others are told, and get it when it
// is free. A ClusterIP is no other Service's address, whatever that says; what a
// load balancer gave is not lost to what a tenant writes.
func TestQuarrels(t *testing.T) {
	addr := netip.MustParseAddr
	give := func(x Exposure) func(s *Service) {
		return func(s *Service) { s.Ports[0].NodePort, s.Exposure = 0, &x }
	}
	balanced, external := Exposure{LoadBalancers: []netip.Addr{addr("192.0.2.1")}}, Exposure{ExternalIPs: []netip.Addr{addr("192.0.2.1")}}
	thief := Exposure{ExternalIPs: []netip.Addr{addr("10.96.0.6")}}
	for name, c := range map[string]struct {
		web, second func(s *Service) // "second" is before "web" by name
		winner      string
		field, text string
	}{
		"a node port":       {func(*Service) {}, func(*Service) {}, "second", "spec.ports[].nodePort", "30080/tcp belongs to service default/second already"},
		"an address":        {give(external), give(external), "second", "spec.externalIPs", "192.0.2.1:80/tcp belongs to service default/second already"},
		"a load balancer's": {give(balanced), give(external), "web", "spec.externalIPs", "192.0.2.1:80/tcp belongs to service default/web already"},
		"two balancers":     {give(balanced), give(balanced), "second", "status.loadBalancer.ingress", "192.0.2.1:80/tcp belongs to service default/second already"},
	} {
		d := newDoors()
		viewer := NewViewer("a1", Options{Outside: true})
		d.service("web", c.web)
		see := func() *View { return viewer.See(d.Build()) }
		if sv, _ := see().Service(ObjectKey{"default", "web"}); len(sv.Outside) != 1 || len(sv.Problems) > 0 {
			t.Errorf("%s: alone %v, %v", name, sv.Outside, sv.Problems)
		}
		d.service("second", c.second)
		view := see()
		for _, service := range []string{"web", "second"} {
			sv, _ := view.Service(ObjectKey{"default", service})
			won := service == c.winner
			if won != (len(sv.Outside) == 1) || won == (len(sv.Problems) == 1) {
				t.Errorf("%s: %s has %v, %v", name, service, sv.Outside, sv.Problems)
			}
			if !won && (sv.Problems[0].Field != c.field || !strings.HasPrefix(sv.Problems[0].Text, c.text)) {
				t.Errorf("%s: %s", name, sv.Problems[0])
			}
		}
		d.DeleteService(ObjectKey{"default", c.winner})
		loser := map[string]string{"web": "second", "second": "web"}[c.winner]
		if sv, _ := see().Service(ObjectKey{"default", loser}); len(sv.Outside) != 1 || len(sv.Problems) > 0 {
			t.Errorf("%s: when it is free %v, %v", name, sv.Outside, sv.Problems)
		}
	}
	d := newDoors()
	viewer := NewViewer("a1", Options{Outside: true})
	d.service("web", give(thief))
	for step, taken := range []bool{false, true, false} {
		if taken {
			d.service("second", func(*Service) {}) // 10.96.0.6
		} else {
			d.DeleteService(ObjectKey{"default", "second"})
		}
		sv, _ := viewer.See(d.Build()).Service(ObjectKey{"default", "web"})
		if (len(sv.Outside) == 0) != taken || (len(sv.Problems) == 1) != taken {
			t.Errorf("step %d: of another's ClusterIP %v, %v", step, sv.Outside, sv.Problems)
		}
	}
}

// A Service that is made later takes no address, whatever its name, nor does one of
// which it is not known when it was made; nobody else is evaluated again.
func TestTheElderKeepsIt(t *testing.T) {
	d := newDoors()
	viewer := NewViewer("a1", Options{Outside: true})
	at := func(created int64) func(s *Service) {
		return func(s *Service) {
			s.Created, s.Ports[0].NodePort = created, 0
			s.Exposure = &Exposure{ExternalIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}
		}
	}
	see := func() (owner string, view *View) {
		view = viewer.See(d.Build())
		for _, sv := range view.Sorted() {
			if len(sv.Outside) > 0 {
				owner += sv.Key.Name
			}
		}
		return owner, view
	}
	d.service("web", at(100))
	d.service("mallory", at(300))
	owner, before := see()
	if owner != "web" {
		t.Fatalf("%s has it", owner)
	}
	d.service("a", at(200))
	owner, view := see()
	if owner != "web" {
		t.Errorf("%s took it", owner)
	}
	if changed := slices.Collect(view.Changed(before)); len(changed) != 1 || changed[0].Name != "a" {
		t.Errorf("evaluated again: %v", changed)
	}
	d.service("about-to-be", at(0))
	if owner, _ = see(); owner != "web" {
		t.Errorf("%s of unknown age took it", owner)
	}
	d.DeleteService(ObjectKey{"default", "web"})
	if owner, view = see(); owner != "a" {
		t.Errorf("%s has it after the eldest", owner)
	}
	loser, _ := view.Service(ObjectKey{"default", "mallory"})
	if want := "192.0.2.1:80/tcp belongs to service default/a already"; len(loser.Problems) != 1 || !strings.HasPrefix(loser.Problems[0].Text, want) {
		t.Errorf("%v, want %s", loser.Problems, want)
	}
}

// Many Services of one namespace fill no node: the eldest keep what they have,
// others are told, other namespaces lose nothing; and it costs what changes.
func TestNamespacesAreBounded(t *testing.T) {
	b := NewBuilder()
	service := func(namespace string, i int, addresses int) {
		s := &Service{
			Key: ObjectKey{namespace, fmt.Sprintf("web-%03d", 500-i)}, Created: int64(1 + i),
			ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})},
			Ports:      []ServicePort{{Protocol: TCP, Port: uint16(1 + i)}}, Exposure: &Exposure{},
		}
		for j := range addresses {
			s.Exposure.ExternalIPs = append(s.Exposure.ExternalIPs, netip.AddrFrom4([4]byte{192, 0, byte(j / 250), byte(1 + j%250)}))
		}
		b.SetService(s)
	}
	for i := range 200 {
		service("mallory", i, 1000)
	}
	service("shop", 201, 1)
	viewer := NewViewer("a1", Options{Datapath: DatapathKernel})
	count := func(view *View) (list []int, told int) {
		for i := range 200 {
			sv, _ := view.Service(ObjectKey{"mallory", fmt.Sprintf("web-%03d", 500-i)})
			list = append(list, len(sv.Outside))
			told += len(sv.Problems)
		}
		return list, told
	}
	before := viewer.See(b.Build())
	got, told := count(before)
	if got[0] != 1000 || got[15] != 1000 || got[16] != 384 || got[17] != 0 || told != 200-16 {
		t.Errorf("%v, and %d problems", got[:20], told)
	}
	last, _ := before.Service(ObjectKey{"mallory", "web-484"})
	if p := last.Problems[0].String(); !strings.HasPrefix(p, "service mallory/web-484: spec.externalIPs: namespace mallory has more than 16384 pairs") || !strings.Contains(p, "of this one 384 are served") {
		t.Error(p)
	}
	if sv, _ := before.Service(ObjectKey{"shop", "web-299"}); len(sv.Outside) != 1 || len(sv.Problems) > 0 {
		t.Errorf("another namespace has %d, %v", len(sv.Outside), sv.Problems)
	}
	for _, c := range []struct {
		i, addresses int
		want         []string // whose views differ
	}{
		{100, 500, []string{"web-400"}},
		{3, 400, []string{"web-484", "web-497"}},
		{3, 1000, []string{"web-484", "web-497"}},
		{3, 100, []string{"web-483", "web-484", "web-497"}},
	} {
		service("mallory", c.i, c.addresses)
		view := viewer.See(b.Build())
		var names []string
		for key := range view.Changed(before) {
			names = append(names, key.Name)
		}
		if slices.Sort(names); !slices.Equal(names, c.want) {
			t.Errorf("%d addresses of the %dth: %v are evaluated again, want %v", c.addresses, c.i, names, c.want)
		}
		before = view
	}
}

// Addresses times ports may be millions in one object: every node bounds them.
func TestOutsideIsBounded(t *testing.T) {
	d := newDoors()
	d.service("web", func(s *Service) {
		s.Ports, s.Exposure = nil, &Exposure{}
		for i := range 1000 {
			s.Ports = append(s.Ports, ServicePort{Name: fmt.Sprint(i), Protocol: TCP, Port: uint16(1 + i)})
			s.Exposure.ExternalIPs = append(s.Exposure.ExternalIPs, netip.AddrFrom4([4]byte{192, 0, byte(i / 250), byte(1 + i%250)}))
		}
	})
	sv, _ := See(d.Build(), "a1", Options{Outside: true}).Service(ObjectKey{"default", "web"})
	if len(sv.Outside) != 4096 || len(sv.Problems) != 1 || !strings.HasPrefix(sv.Problems[0].Text, "has more than 4096 pairs") {
		t.Errorf("%d frontends, %v", len(sv.Outside), sv.Problems)
	}
}

// Who does not ask for what nobody serves does not pay for it, however much one
// tenant writes: agents and DNS servers.
func TestOutsideIsAskedFor(t *testing.T) {
	cost := func(addresses int) float64 {
		d := newDoors()
		for i := range 50 {
			d.service(fmt.Sprint("web-", i), func(s *Service) {
				s.Exposure = &Exposure{HealthCheckNodePort: 32000, Local: true}
				for i := range addresses {
					s.Exposure.ExternalIPs = append(s.Exposure.ExternalIPs, netip.AddrFrom4([4]byte{192, 0, byte(i / 250), byte(1 + i%250)}))
				}
			})
		}
		snap := d.Build()
		for _, sv := range See(snap, "a1", Options{}).Sorted() {
			if len(sv.Outside) > 0 || sv.HealthCheck != nil {
				t.Fatalf("%s has %d frontends, %v", sv.Key, len(sv.Outside), sv.HealthCheck)
			}
		}
		return testing.AllocsPerRun(5, func() { See(snap, "a1", Options{}) })
	}
	if none, many := cost(0), cost(1000); many > none+50 {
		t.Errorf("%.0f allocations, and %.0f without an address", many, none)
	}
}

// Frontends that lead to the same endpoints hold them once.
func TestTiersAreShared(t *testing.T) {
	d := newDoors()
	d.service("web", func(s *Service) {
		s.Exposure = &Exposure{ExternalIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, Local: true}
	})
	sv, _ := See(d.Build(), "a1", Options{Outside: true}).Service(ObjectKey{"default", "web"})
	for _, o := range sv.Outside {
		if &o.Tiers[0] != &sv.Frontends[0].Tiers[0] || &o.LocalTiers[0] != &sv.Outside[0].LocalTiers[0] {
			t.Errorf("%s holds tiers of its own", o.Frontend)
		}
	}
}
