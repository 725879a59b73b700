package source_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

// A Service that is kept has what it had, and nothing of one that is not kept, though nobody
// is left who has it: no ClusterIP, node port, nor address of a load balancer, whose ranges are
// gone, too.
func TestWhatIsKeptTakesNothingOfOthers(t *testing.T) {
	b := topology.NewBuilder()
	b.SetNode(&topology.Node{Name: "n0", Labels: map[string]string{"unit": "a"}})
	at := func(list ...string) (addrs []netip.Addr) {
		for _, a := range list {
			addrs = append(addrs, netip.MustParseAddr(a))
		}
		return addrs
	}
	add := func(name string, created int64, ips []netip.Addr, ports []topology.ServicePort, x topology.Exposure) {
		s := &topology.Service{Key: topology.ObjectKey{Namespace: name, Name: "web"}, Created: created, ClusterIPs: ips, Exposure: &x}
		for _, p := range ports {
			p.Protocol, p.Name = topology.TCP, string(rune('a'+p.Port%26))
			s.Ports = append(s.Ports, p)
		}
		b.SetService(s)
	}
	port := func(n, node uint16) topology.ServicePort { return topology.ServicePort{Port: n, NodePort: node} }
	add("elder", 1, at("10.96.0.50", "fd00::50"), []topology.ServicePort{port(80, 30080)}, topology.Exposure{LoadBalancers: at("203.0.113.5", "203.0.113.7"), Sources: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
	add("mallory", 2, at("10.96.0.66", "fd00::50"), []topology.ServicePort{port(80, 30080), port(81, 30081)}, topology.Exposure{ExternalIPs: at("203.0.113.5", "10.96.0.50", "203.0.113.6"), LoadBalancers: at("203.0.113.5")})
	add("shares", 3, at("10.96.0.67"), []topology.ServicePort{port(443, 0)}, topology.Exposure{LoadBalancers: at("203.0.113.7")})

	whole, opts := b.Build(), topology.Options{Datapath: topology.DatapathAuto}
	viewer := topology.NewViewer("n0", opts)
	live := viewer.See(whole)
	frontends := func(view *topology.View) (list []string) {
		for _, s := range view.Sorted() {
			if s.Key.Namespace == "elder" {
				continue
			}
			for _, f := range s.Frontends {
				list = append(list, s.Key.Namespace+" "+f.String())
			}
			for _, o := range s.Outside {
				list = append(list, s.Key.Namespace+" "+o.String())
			}
		}
		return list
	}
	kept := func(own func(*topology.Service) *topology.Service) *topology.View {
		data, err := source.EncodeState(&source.State{Snapshot: source.Subset(whole, "n0", func(s *topology.Service) *topology.Service {
			if s.Key.Namespace == "elder" {
				return nil
			}
			return own(s)
		})})
		if err != nil {
			t.Fatal(err)
		}
		st, err := source.DecodeState(data)
		if err != nil {
			t.Fatal(err)
		}
		return topology.See(st.Snapshot, "n0", opts)
	}
	want := frontends(live)
	view := kept(viewer.Own)
	if got := frontends(view); !slices.Equal(got, want) || len(want) != 9 {
		t.Errorf("what is kept serves %q, it served %q", got, want)
	}
	for _, s := range view.Sorted() { // and says why, and whose it is
		if was, _ := live.Service(s.Key); !slices.Equal(s.Problems, was.Problems) {
			t.Errorf("of what is kept it is said %v, it was %v", s.Problems, was.Problems)
		}
	}
	if got := frontends(kept(func(s *topology.Service) *topology.Service { return s })); slices.Equal(got, want) {
		t.Error("nothing was to be taken: the test proves nothing")
	}
	if s, _ := live.Service(topology.ObjectKey{Namespace: "shares", Name: "web"}); viewer.Own(s.Service) != s.Service {
		t.Error("a Service that has all that it asks for was copied")
	}
}
