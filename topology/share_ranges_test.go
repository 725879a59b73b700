package topology_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	. "github.com/gridmesh/gridmesh/topology"
)

// guardedService has a load balancer's address with so many ports, and so many ranges.
func guardedService(namespace string, i, ports, ranges int) *Service {
	addr := netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)})
	s := &Service{
		Key: ObjectKey{namespace, fmt.Sprintf("web-%03d", 500-i)}, Created: int64(1 + i),
		ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})},
		Exposure:   &Exposure{LoadBalancers: []netip.Addr{addr}, ExternalIPs: []netip.Addr{netip.MustParseAddr("203.0.113.1")}},
	}
	for j := range ports {
		s.Ports = append(s.Ports, ServicePort{Name: fmt.Sprint(j), Protocol: TCP, Port: uint16(1 + 10*i + j)})
	}
	for j := range ranges {
		s.Exposure.Sources = append(s.Exposure.Sources, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(j >> 7), byte(2 * j), 0}), 24))
	}
	return s
}

// What ranges take of every node is bounded, whatever the number of pairs that they guard:
// namespaces have room in turns, in each the eldest, and what has none is closed, and never open.
func TestRangesAreBounded(t *testing.T) {
	b, viewer := NewBuilder(), NewViewer("a1", Options{Datapath: DatapathKernel})
	viewer.BoundRanges(4000)
	var before *View
	// check wants so many pairs of a load balancer to be served, and these Services to change.
	check := func(step string, want map[string]int, changed ...string) {
		t.Helper()
		view := viewer.See(b.Build())
		for name, n := range want {
			namespace, short, _ := strings.Cut(name, "/")
			sv, _ := view.Service(ObjectKey{namespace, short})
			served, others := 0, 0
			for _, o := range sv.Outside {
				switch {
				case o.Kind != LoadBalancer:
					others++
				case len(o.Sources) == 0:
					t.Errorf("%s: %s: %s is open to everybody", step, name, o.Frontend)
				default:
					served++
				}
			}
			lacks := len(sv.Problems) == 1 && sv.Problems[0].Field == "spec.loadBalancerSourceRanges" && strings.Contains(sv.Problems[0].Text, "merge neighbouring ranges")
			if ports := others; served != n || lacks != (n < ports) || !lacks && len(sv.Problems) > 0 {
				t.Errorf("%s: %s has %d of %d pairs, want %d; %v", step, name, served, ports, n, sv.Problems)
			}
		}
		if before != nil {
			var names []string
			for key := range view.Changed(before) {
				names = append(names, key.String())
			}
			if slices.Sort(names); !slices.Equal(names, changed) {
				t.Errorf("%s: evaluated again: %v, want %v", step, names, changed)
			}
		}
		before = view
	}
	b.SetService(guardedService("shop", 1, 2, 10))
	b.SetService(guardedService("mallory", 2, 9, 1000))
	b.SetService(guardedService("mallory", 3, 1, 10))
	b.SetService(guardedService("late", 100, 1, 10))
	check("one Service", map[string]int{"shop/web-499": 2, "mallory/web-498": 9, "mallory/web-497": 1, "late/web-400": 1})
	b.SetService(guardedService("mallory", 2, 1, 1000))
	check("one Service of less", map[string]int{"mallory/web-498": 1, "mallory/web-497": 1}, "mallory/web-498")
	b.SetService(guardedService("mallory", 4, 2, 1000))
	check("the namespace", map[string]int{"mallory/web-498": 1, "mallory/web-497": 1, "mallory/web-496": 2}, "mallory/web-496")
	for i := range 3 {
		b.SetService(guardedService(fmt.Sprint("mallory-", i), 10+i, 5, 1000))
	}
	check("all", map[string]int{"shop/web-499": 2, "mallory/web-498": 1, "mallory/web-497": 1, "mallory/web-496": 0, "mallory-0/web-490": 5, "mallory-1/web-489": 5, "mallory-2/web-488": 0, "late/web-400": 1},
		"mallory-0/web-490", "mallory-1/web-489", "mallory-2/web-488", "mallory/web-496")
	short, _ := before.Service(ObjectKey{"mallory", "web-496"})
	if p := short.Problems[0].String(); !strings.Contains(p, "mallory/web-496: spec.loadBalancerSourceRanges: takes 1008 entries of every node, one for each range and 8 for a list of a family, and the cluster has 4000, which namespaces take in turns, the eldest Services of each first: 2 pairs of a port and an address are served to nobody") {
		t.Error(p)
	}
	b.DeleteService(ObjectKey{"mallory-1", "web-489"})
	check("all, and one goes", map[string]int{"mallory/web-496": 0, "mallory-0/web-490": 5, "mallory-2/web-488": 5}, "mallory-1/web-489", "mallory-2/web-488")
	b.DeleteService(ObjectKey{"mallory-2", "web-488"})
	b.DeleteService(ObjectKey{"late", "web-400"})
	check("room for all but one", map[string]int{"shop/web-499": 2, "mallory/web-496": 2, "mallory-0/web-490": 5}, "late/web-400", "mallory-2/web-488", "mallory/web-496")
}
