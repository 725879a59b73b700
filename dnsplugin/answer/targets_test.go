package answer

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

// wide is headless Services of a grid: db has 600 ports and 300 pods, each with
// a name of its own, and of same all pods have one name.
func wide() *Index {
	const ports, pods = 600, 300
	b := topology.NewBuilder()
	b.SetNode(&topology.Node{Name: "a1", Labels: map[string]string{"site": "a"}})
	keys := `["site"]`
	for _, name := range []string{"db", "same"} {
		key := topology.ObjectKey{Namespace: "shop", Name: name}
		b.SetService(&topology.Service{Key: key, Headless: true, GridKey: "site", TopologyKeys: &keys})
		slice := &topology.Slice{Key: key, Service: name}
		for i := range ports {
			slice.Ports = append(slice.Ports, topology.SlicePort{Name: fmt.Sprint("p", i), Protocol: topology.TCP, Port: uint16(i + 1)})
		}
		for i := range pods {
			host := map[string]string{"db": fmt.Sprint("db-a-", i), "same": "one"}[name]
			slice.Endpoints = append(slice.Endpoints, topology.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), Hostname: host, Node: "a1", Ready: true, Serving: true})
		}
		b.SetSlice(slice)
	}
	return New(Config{}).Next(topology.See(b.Build(), "a1", topology.Options{}))
}

// One question makes no more records than a message of DNS may have room for,
// and says so; what has room is all there, however often it is there.
func TestTargetsOfOneMessage(t *testing.T) {
	x := wide()
	for _, c := range []struct {
		name      string
		truncated bool
		srv, ips  int // different ones; 0 where truncated
	}{
		{"db.shop", true, 0, 0},
		{"_.tcp.db.shop", true, 0, 0},
		{"_p7._tcp.db.shop", false, 300, 300},
		{"db-a-7.db.shop", false, 600, 1},
		{"same.shop", false, 600, 300},
		{"one.same.shop", false, 600, 300},
		{"_.tcp.same.shop", false, 600, 300},
	} {
		a := x.Lookup(c.name, SRV)
		srv, ips := map[targetPort]bool{}, map[netip.Addr]bool{}
		for _, target := range a.SRV {
			srv[targetPort{target.Name, target.Port}] = true
			for _, ip := range target.Addrs {
				ips[ip] = true
			}
		}
		if len(a.SRV) > 3000 || a.Truncated != c.truncated {
			t.Errorf("%s: %d targets, truncated %v, want %v", c.name, len(a.SRV), a.Truncated, c.truncated)
		}
		switch least := len(srv) * (owned + 6 + len("db-a-0.db.shop.")); {
		case !c.truncated && (len(srv) != c.srv || len(ips) != c.ips):
			t.Errorf("%s: %d different targets with %d addresses, want %d and %d", c.name, len(srv), len(ips), c.srv, c.ips)
		case c.truncated && least < largest*9/10:
			t.Errorf("%s: truncated, and %d targets may take %d bytes only", c.name, len(srv), least)
		}
	}
	if a := x.Lookup("_.tcp.same.shop", A); len(a.Addrs) != 300 || a.Truncated {
		t.Errorf("%d addresses, truncated %v; want 300", len(a.Addrs), a.Truncated)
	}
}
