package render

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

// big sets a Service 10.96.X.N with ports from 1 on, each with so many endpoints,
// all of them in the unit of a-1.
func (w *udpWorld) big(key topology.ObjectKey, x, n byte, ports, endpoints int) {
	w.bigOn("a-1", unitOnly, key, x, n, ports, endpoints)
}

func (w *udpWorld) bigOn(node, keys string, key topology.ObjectKey, x, n byte, ports, endpoints int) {
	s := &topology.Service{Key: key, TopologyKeys: &keys, ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, x, n})}}
	slice := &topology.Slice{Key: key, Service: key.Name}
	for i := range ports {
		name := fmt.Sprint("p", i)
		s.Ports = append(s.Ports, topology.ServicePort{Name: name, Protocol: topology.TCP, Port: uint16(1 + i)})
		slice.Ports = append(slice.Ports, topology.SlicePort{Name: name, Protocol: topology.TCP, Port: 8080})
	}
	for i := range endpoints {
		slice.Endpoints = append(slice.Endpoints, topology.Endpoint{Addr: netip.AddrFrom4([4]byte{10, x, byte(i >> 8), byte(i)}), Node: node, Ready: true, Serving: true})
	}
	w.SetService(s)
	w.SetSlice(slice)
}

// held is how many clusters Envoy holds beforehand, and how many endpoints they have.
func held(c *Catalog) (clusters, endpoints int) {
	for name := range c.preload.All() {
		entry, _ := c.Entry(name)
		clusters++
		for _, t := range entry.Frontend.Tiers {
			endpoints += len(t.Endpoints)
		}
	}
	return clusters, endpoints
}

// What Envoy holds beforehand is bounded in endpoints, not only in clusters, and
// whoever looks is told what is left out. On demand all of it is there.
func TestPreloadIsBoundedInEndpoints(t *testing.T) {
	for name, c := range map[string]struct {
		ports, endpoints int
		want             int // clusters
	}{
		"as many as count once": {600, 40, 500},
		"one more":              {600, 41, 250},
		"500 ports, 100":        {500, 100, 166},
		"100 ports, 1000":       {100, 1000, 20},
		"a quarter":             {10, 5000, 4},
		"more than a quarter":   {10, 5001, 0},
	} {
		w := newUDPWorld(500)
		w.big(named("web"), 1, 1, c.ports, c.endpoints)
		cat, _ := w.next()
		clusters, endpoints := held(cat)
		if clusters != c.want || endpoints > 500*endpointsOfPlace {
			t.Errorf("%s: %d clusters of %d endpoints together are preloaded, want %d clusters", name, clusters, endpoints, c.want)
		}
		want := fmt.Sprintf("%d clusters near this node are over the cap of 500, of which one takes a place for each 40 endpoints", c.ports-c.want)
		if len(cat.Problems) != 1 || !strings.HasPrefix(cat.Problems[0].Text, want) {
			t.Errorf("%s: %v, want %q", name, cat.Problems, want)
		}
		last := fmt.Sprintf("10.96.1.1:%d", c.ports)
		if r, ok := cat.Resource(EndpointType, last); !ok || r.Message == nil || len(endpointsBehind(cat, last)) != c.endpoints {
			t.Errorf("%s: asked for, %s is not there with its endpoints", name, last)
		}
	}
}

// endpointsBehind are those of a cluster's first tier.
func endpointsBehind(c *Catalog, name string) []topology.Target {
	entry, _ := c.Entry(name)
	return entry.Frontend.Tiers[0].Endpoints
}

// Who has Services of many endpoints takes as much as others of other namespaces, and
// what is not chosen for its size keeps nobody behind it away.
func TestManyEndpointsTakeNobodysPlace(t *testing.T) {
	w := newUDPWorld(500)
	w.big(topology.ObjectKey{Namespace: "a-tenant", Name: "wide"}, 1, 1, 100, 1000)
	w.big(topology.ObjectKey{Namespace: "a-tenant-2", Name: "huge"}, 1, 2, 20, 5200)
	for i := range byte(200) {
		w.big(topology.ObjectKey{Namespace: "shop", Name: fmt.Sprint("web-", i)}, 2, i, 1, 10)
	}
	w.service(topology.ObjectKey{Namespace: "kube-system", Name: "kube-dns"}, 1, "", topology.TCP, []uint16{53}, "b-1")
	cat, _ := w.next()
	for i := range 200 {
		if name := fmt.Sprintf("10.96.2.%d:1", i); !cat.Preloaded(name) {
			t.Errorf("%s is not preloaded", name)
		}
	}
	if clusters, _ := held(cat); clusters != 200+1+11 || !cat.Preloaded("10.96.0.1:53") {
		t.Errorf("%d clusters are preloaded, want 212, and the cluster's DNS: %v", clusters, cat.Preloaded("10.96.0.1:53"))
	}
}

// A cluster that grows takes more places, and gives them back: it costs those that
// give way to it, and the order is the same afterwards.
func TestAClusterThatGrows(t *testing.T) {
	w := newUDPWorld(20)
	for i := range byte(20) {
		w.big(named(fmt.Sprint("web-", 'a'+i)), 2, i, 1, 1)
	}
	before, _ := w.next()
	for step, endpoints := range []int{40, 41, 200, 201, 1} {
		w.big(named(fmt.Sprint("web-", 'a'+byte(0))), 2, 0, 1, endpoints)
		cat, changed := w.next()
		places := (endpoints + 39) / 40
		want := 20 - places + 1
		if places > 5 {
			want = 19
		}
		if clusters, _ := held(cat); clusters != want || cat.Preloaded("10.96.2.0:1") == (places > 5) {
			t.Errorf("step %d: %d clusters, want %d; the one that grew: %v", step, clusters, want, cat.Preloaded("10.96.2.0:1"))
		}
		if n := len(changed[ClusterType]); endpoints == 40 && n != 1 {
			t.Errorf("step %d: %v changed", step, changed[ClusterType])
		}
		if endpoints == 1 && cat.PreloadedLen() != before.PreloadedLen() {
			t.Errorf("%d are preloaded, %d before", cat.PreloadedLen(), before.PreloadedLen())
		}
	}
}

// The pages say the number that counts here.
func TestThePlacesOnThePages(t *testing.T) {
	for _, page := range []string{"../README.md", "../../docs/agent.md", "../../docs/limits.md"} {
		text, err := os.ReadFile(page)
		if want := fmt.Sprintf("more than %d", endpointsOfPlace); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s does not say %q: %v", page, want, err)
		}
	}
}
