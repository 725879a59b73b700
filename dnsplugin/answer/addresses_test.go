package answer

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

// crowd is a Service with more pods than a message has room for, a headless one of a
// grid or one with a ClusterIP. Each address is there twice; one name is of all pods.
func crowd(headless bool, v4, v6 int) *Index {
	b, keys, key := topology.NewBuilder(), `["site"]`, topology.ObjectKey{Namespace: "shop", Name: "crowd"}
	b.SetNode(&topology.Node{Name: "a1", Labels: map[string]string{"site": "a"}})
	s := &topology.Service{Key: key, Headless: headless}
	if headless {
		s.GridKey, s.TopologyKeys = "site", &keys
	} else {
		s.ClusterIPs = []netip.Addr{netip.MustParseAddr("10.96.0.1")}
	}
	b.SetService(s)
	for i := range 4 {
		slice := &topology.Slice{
			Key: topology.ObjectKey{Namespace: "shop", Name: fmt.Sprint("crowd-", i)}, Service: key.Name, IPv6: i%2 == 1,
			Ports: []topology.SlicePort{{Name: "http", Protocol: topology.TCP, Port: uint16(8080 + i)}},
		}
		add := func(ip netip.Addr) {
			slice.Endpoints = append(slice.Endpoints, topology.Endpoint{Addr: ip, Hostname: "one", Node: "a1", Ready: true, Serving: true})
		}
		if slice.IPv6 {
			for n := range v6 {
				add(netip.AddrFrom16([16]byte{0xfd, 14: byte(n >> 8), 15: byte(n)}))
			}
		} else {
			for n := range v4 {
				add(netip.AddrFrom4([4]byte{10, 1, byte(n >> 8), byte(n)}))
			}
		}
		b.SetSlice(slice)
	}
	return New(Config{Services: true}).Next(topology.See(b.Build(), "a1", topology.Options{}))
}

// One question makes no more addresses than a message of DNS may have room for, and
// says so; those that have room are all there, each once.
func TestAddressesOfOneMessage(t *testing.T) {
	const most4, most6 = 4095, 2340 // of 16 and 28 bytes
	for _, pods := range []struct{ v4, v6 int }{{most4, most6}, {most4 + 1, most6 + 1}, {20000, 20000}, {3, 20000}, {0, 1}} {
		for _, asked := range []struct {
			name     string
			headless bool
		}{{"crowd.shop", true}, {"_http._tcp.crowd.shop", true}, {"one.crowd.shop", true}, {"one.crowd.shop", false}} {
			x := crowd(asked.headless, pods.v4, pods.v6)
			for qtype, there := range map[Type][2]int{A: {pods.v4, most4}, AAAA: {pods.v6, most6}} {
				what := fmt.Sprintf("%d and %d pods, %v, type %d", pods.v4, pods.v6, asked, qtype)
				var a Answer
				made := testing.AllocsPerRun(1, func() { a = x.Lookup(asked.name, qtype) })
				if n := min(there[0], there[1]); len(a.Addrs) != n || a.Truncated != (there[0] > n) || a.Result != Found {
					t.Errorf("%s: %d addresses, truncated %v, result %d", what, len(a.Addrs), a.Truncated, a.Result)
				}
				if once := slices.Compact(slices.Clone(a.Addrs)); len(once) != len(a.Addrs) || !slices.IsSortedFunc(a.Addrs, netip.Addr.Compare) {
					t.Errorf("%s: some are there twice, or out of order", what)
				}
				if asked.headless && made > 100 {
					t.Errorf("%s: %v things were made", what, made)
				}
			}
		}
	}
}

// many is Services of a grid with one pod, the same for all.
func many(services int) (*Index, netip.Addr) {
	b, keys, ip := topology.NewBuilder(), `["site"]`, netip.MustParseAddr("10.1.0.1")
	b.SetNode(&topology.Node{Name: "a1", Labels: map[string]string{"site": "a"}})
	for i := range services {
		key := topology.ObjectKey{Namespace: "shop", Name: fmt.Sprint("db", i)}
		b.SetService(&topology.Service{Key: key, Headless: true, GridKey: "site", TopologyKeys: &keys})
		b.SetSlice(&topology.Slice{Key: key, Service: key.Name, Endpoints: []topology.Endpoint{{Addr: ip, Hostname: "db-a-0", Node: "a1", Ready: true, Serving: true}}})
	}
	return New(Config{Services: true}).Next(topology.See(b.Build(), "a1", topology.Options{})), ip
}

// And so it is for the names of one address.
func TestNamesOfOneMessage(t *testing.T) {
	for _, services := range []int{1, 1000, 6000} {
		x, ip := many(services)
		names, truncated := x.PTR(ip)
		if truncated != (services == 6000) || !truncated && len(names) != services || truncated && (len(names) < 1500 || len(names) > 3000) {
			t.Errorf("%d Services: %d names, truncated %v", services, len(names), truncated)
		}
	}
}
