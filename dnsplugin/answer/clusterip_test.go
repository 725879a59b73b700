package answer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

// Below a Service with a ClusterIP and no keys: hostnames and addresses of the
// ready pods, each address once, though a pod is in two slices.
func TestNamesBelowClusterIP(t *testing.T) {
	b, key := topology.NewBuilder(), topology.ObjectKey{Namespace: "default", Name: "plain"}
	b.SetService(&topology.Service{Key: key, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")}, Ports: []topology.ServicePort{{Name: "http", Protocol: topology.TCP, Port: 80}}})
	for i := range 2 {
		b.SetSlice(&topology.Slice{
			Key: topology.ObjectKey{Namespace: "default", Name: fmt.Sprint("plain-", i)}, Service: "plain",
			Ports: []topology.SlicePort{{Name: "http", Protocol: topology.TCP, Port: 8080}},
			Endpoints: []topology.Endpoint{
				{Addr: netip.MustParseAddr("10.1.0.1"), Hostname: "Front", Ready: true},
				{Addr: netip.MustParseAddr("10.1.0.2"), Ready: true},
				{Addr: netip.MustParseAddr("10.1.0.3"), Hostname: "asleep"},
			},
		})
	}
	b.SetSlice(&topology.Slice{
		Key: topology.ObjectKey{Namespace: "default", Name: "plain-6"}, Service: "plain", IPv6: true,
		Endpoints: []topology.Endpoint{{Addr: netip.MustParseAddr("fd09::"), Ready: true}, {Addr: netip.MustParseAddr("fd09::1"), Hostname: "front", Ready: true}},
	})
	x := New(Config{Services: true}).Next(topology.See(b.Build(), "a1", topology.Options{}))
	for name, want := range map[string]string{
		"front": "10.1.0.1 fd09::1 8080", "10-1-0-2": "10.1.0.2 8080", "fd09--0": "fd09::",
		"10-1-0-1": "NXDOMAIN", "asleep": "NXDOMAIN", "10-1-0-3": "NXDOMAIN", "fd09--": "NXDOMAIN", "fd09-0--0": "NXDOMAIN", "db-0": "NXDOMAIN", "": "NXDOMAIN",
		"_http._tcp": "10.96.0.1 80", "_http._udp": "NXDOMAIN", "_dns._tcp": "NXDOMAIN",
	} {
		full := name + ".plain.default"
		var got []string
		for _, qtype := range []Type{A, AAAA, SRV} {
			a := x.Lookup(full, qtype)
			for _, ip := range a.Addrs {
				got = append(got, ip.String())
			}
			for _, s := range a.SRV {
				if text := fmt.Sprint(s.Port); !slices.Contains(got, text) {
					got = append(got, text)
				}
			}
			if (a.Result == NXDomain) != (want == "NXDOMAIN") {
				t.Errorf("%s: result %d", full, a.Result)
			}
		}
		if text := strings.Join(got, " "); want != "NXDOMAIN" && text != want {
			t.Errorf("%s: %q, want %q", full, text, want)
		}
	}
}

// Of two Services with one ClusterIP the second is not served by it: its name
// does not lead there, and the address is not called after it.
func TestAddressOfAnother(t *testing.T) {
	b, shared, own := topology.NewBuilder(), netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("fd00::1")
	ports := []topology.ServicePort{{Name: "http", Protocol: topology.TCP, Port: 80}}
	b.SetService(&topology.Service{Key: topology.ObjectKey{Namespace: "default", Name: "first"}, ClusterIPs: []netip.Addr{shared}, Ports: ports})
	b.SetService(&topology.Service{Key: topology.ObjectKey{Namespace: "default", Name: "second"}, ClusterIPs: []netip.Addr{shared, own}, Ports: ports})
	viewer := topology.NewViewer("a1", topology.Options{})
	x := New(Config{Services: true}).Next(viewer.See(b.Build()))
	expect := func(name string, qtype Type, want ...netip.Addr) {
		t.Helper()
		if a := x.Lookup(name, qtype); a.Result != Found || !slices.Equal(a.Addrs, want) {
			t.Errorf("%s: %+v, want %v", name, a, want)
		}
	}
	expect("first.default", A, shared)
	expect("second.default", A)
	expect("second.default", AAAA, own)
	expect("_http._tcp.second.default", A)
	if names, _ := x.PTR(shared); !slices.Equal(names, []string{"first.default"}) {
		t.Errorf("%s is %v", shared, names)
	}
	b.DeleteService(topology.ObjectKey{Namespace: "default", Name: "first"})
	x = x.Next(viewer.See(b.Build()))
	expect("second.default", A, shared)
	if names, _ := x.PTR(shared); !slices.Equal(names, []string{"second.default"}) {
		t.Errorf("%s is %v after the first is gone", shared, names)
	}
}

// A pod that waits has its ordinal with OrdinalsAll, below Services of either
// kind and in the hosts file; its full name is a ready pod's to have.
func TestOrdinalOfAPodThatWaits(t *testing.T) {
	for _, headless := range []bool{true, false} {
		for ordinals, want := range map[topology.Ordinals]Result{topology.OrdinalsReady: NXDomain, topology.OrdinalsAll: Found} {
			b, keys, key := topology.NewBuilder(), `["site"]`, topology.ObjectKey{Namespace: "default", Name: "db"}
			b.SetNode(&topology.Node{Name: "a1", Labels: map[string]string{"site": "a"}})
			s := &topology.Service{Key: key, Headless: headless, GridKey: "site", TopologyKeys: &keys}
			if !headless {
				s.ClusterIPs = []netip.Addr{netip.MustParseAddr("10.96.0.1")}
			}
			b.SetService(s)
			b.SetSlice(&topology.Slice{Key: key, Service: "db", Endpoints: []topology.Endpoint{{Addr: netip.MustParseAddr("10.1.0.1"), Node: "a1", Hostname: "db-a-0"}}})
			x := New(Config{Services: true}).Next(topology.See(b.Build(), "a1", topology.Options{Ordinals: ordinals}))
			if a := x.Lookup("db-0.db.default", A); a.Result != want || (want == Found) != (len(a.Addrs) == 1) {
				t.Errorf("headless %v, ordinals %d: %+v", headless, ordinals, a)
			}
			if a := x.Lookup("db-a-0.db.default", A); a.Result != NXDomain {
				t.Errorf("headless %v, ordinals %d: the full name is %+v", headless, ordinals, a)
			}
			if text := string(x.Hosts("zone")); (text == "10.1.0.1 db-0.db.default.svc.zone\n") != (want == Found) {
				t.Errorf("headless %v, ordinals %d: hosts %q", headless, ordinals, text)
			}
		}
	}
}
