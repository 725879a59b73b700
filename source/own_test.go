package source_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

// A Service that is kept has no address of one that is not, though nobody is left who has
// it: neither a ClusterIP nor a load balancer's address, whose ranges are gone, too. What is
// its own, and what it shares by ports, stays.
func TestWhatIsKeptTakesNothingOfOthers(t *testing.T) {
	b := topology.NewBuilder()
	b.SetNode(&topology.Node{Name: "n0", Labels: map[string]string{"unit": "a"}})
	add := func(name string, created int64, ip string, ports []uint16, near bool, x topology.Exposure) {
		key := topology.ObjectKey{Namespace: name, Name: "web"}
		s := &topology.Service{Key: key, Created: created, ClusterIPs: []netip.Addr{netip.MustParseAddr(ip)}, Exposure: &x}
		slice := &topology.Slice{Key: topology.ObjectKey{Namespace: name, Name: "web-1"}, Service: "web", Endpoints: []topology.Endpoint{{Addr: netip.MustParseAddr("10.244.9.9"), Ready: true}}}
		if near {
			keys := `["unit"]`
			s.TopologyKeys, slice.Endpoints[0].Node = &keys, "n0"
		}
		for _, p := range ports {
			s.Ports = append(s.Ports, topology.ServicePort{Name: string(rune('a' + p%26)), Protocol: topology.TCP, Port: p})
			slice.Ports = append(slice.Ports, topology.SlicePort{Name: string(rune('a' + p%26)), Protocol: topology.TCP, Port: 8080})
		}
		b.SetService(s)
		b.SetSlice(slice)
	}
	at := func(list ...string) (addrs []netip.Addr) {
		for _, a := range list {
			addrs = append(addrs, netip.MustParseAddr(a))
		}
		return addrs
	}
	add("elder", 1, "10.96.0.50", []uint16{80}, false, topology.Exposure{LoadBalancers: at("203.0.113.5", "203.0.113.7"), Sources: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
	add("mallory", 2, "10.96.0.66", []uint16{80, 81}, true, topology.Exposure{ExternalIPs: at("203.0.113.5", "10.96.0.50", "203.0.113.6"), LoadBalancers: at("203.0.113.5")})
	add("shares", 3, "10.96.0.67", []uint16{443}, true, topology.Exposure{LoadBalancers: at("203.0.113.7")})

	whole := b.Build()
	opts := topology.Options{Datapath: topology.DatapathAuto}
	view := topology.See(whole, "n0", opts)
	near := func(key topology.ObjectKey) bool { return key.Namespace != "elder" }
	own := func(s *topology.Service) *topology.Service {
		v, _ := view.Services.Get(s.Key)
		return v.Own()
	}
	outside := func(own func(*topology.Service) *topology.Service) (list []string) {
		for _, s := range topology.See(source.Subset(whole, "n0", near, own), "n0", opts).Sorted() {
			for _, o := range s.Outside {
				list = append(list, s.Key.Namespace+" "+o.String())
			}
		}
		slices.Sort(list)
		return list
	}
	want := []string{"mallory 203.0.113.6:80/tcp", "mallory 203.0.113.6:81/tcp", "shares 203.0.113.7:443/tcp"}
	if got := outside(own); !slices.Equal(got, want) {
		t.Errorf("what is kept serves %q, want %q", got, want)
	}
	if got := outside(nil); slices.Equal(got, want) {
		t.Error("nothing was to be taken: the test proves nothing")
	}
	if s, _ := view.Services.Get(topology.ObjectKey{Namespace: "shares", Name: "web"}); s.Own() != s.Service {
		t.Error("a Service that has all that is its own was copied")
	}
}
