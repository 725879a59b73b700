package render

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

// After a restart the same UDP frontends have listeners, although there are
// more candidates than listeners and newcomers would come first by name.
func TestUDPListenersSurviveARestart(t *testing.T) {
	w := newUDPWorld(500)
	for n := range byte(8) {
		w.service(topology.ObjectKey{Namespace: fmt.Sprintf("ns%d", n), Name: "old"}, n, unitOnly, topology.UDP, portsFrom(9000, 16), "a-1")
	}
	cat, _ := w.next()
	before := udpListeners(cat)
	w.service(topology.ObjectKey{Namespace: "aaa", Name: "new"}, 100, unitOnly, topology.UDP, portsFrom(9000, 16), "a-1")
	w.service(topology.ObjectKey{Namespace: "ns0", Name: "old"}, 0, unitOnly, topology.UDP, portsFrom(9000, 16)) // its endpoints are away
	cat, _ = w.next()
	if got := udpListeners(cat); len(before) != 100 || !slices.Equal(got, before) {
		t.Fatalf("%d listeners, then %d", len(before), len(got))
	}
	names := append(w.cats.Listening(), "10.96.0.1:80")

	for _, partial := range []bool{false, true} {
		again := newUDPWorld(500)
		if others := again.cats.Restore(names); !slices.Equal(others, []string{"10.96.0.1:80"}) {
			t.Errorf("not of UDP: %v", others)
		}
		if partial { // the last good state first
			again.cats.Next(topology.NewViewer("a-1", topology.Options{}).See(topology.NewBuilder().Build()), true)
		}
		again.Builder = w.Builder
		cat, _ := again.next()
		if got := udpListeners(cat); !slices.Equal(got, before) {
			t.Errorf("partial %v: after a restart %d others have listeners", partial, len(got)-shared(got, before))
		}
	}
}

func portsFrom(first, n int) (list []uint16) {
	for i := range n {
		list = append(list, uint16(first+i))
	}
	return list
}

func shared(a, b []string) (n int) {
	for _, s := range a {
		if slices.Contains(b, s) {
			n++
		}
	}
	return n
}

// Nothing is bound to addresses of an IP version that the node does not have,
// and it is as soon as it has it.
func TestListenersFollowIPv6(t *testing.T) {
	w := newUDPWorld(500)
	key := named("both")
	keys := unitOnly
	w.SetService(&topology.Service{
		Key: key, TopologyKeys: &keys, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("fd00:96::1")},
		Ports: []topology.ServicePort{{Name: "x", Protocol: topology.UDP, Port: 9000}},
	})
	for _, ip := range []string{"10.1.0.1", "fd01::1"} {
		addr := netip.MustParseAddr(ip)
		w.SetSlice(&topology.Slice{
			Key: named("both" + ip), Service: "both", IPv6: addr.Is6(), Ports: []topology.SlicePort{{Name: "x", Protocol: topology.UDP, Port: 8080}},
			Endpoints: []topology.Endpoint{{Addr: addr, Node: "a-1", Ready: true, Serving: true}},
		})
	}
	of6 := func(c *Catalog) (n int) {
		for _, name := range c.Wildcard(ListenerType) {
			if strings.Contains(name, "tcp6") || strings.Contains(name, "[") {
				n++
			}
		}
		return n
	}
	for i, step := range []struct {
		has     bool
		changes bool
		want    int
	}{{true, false, 3}, {false, true, 0}, {false, false, 0}, {true, true, 3}} {
		if got := w.cats.IPv6(step.has); got != step.changes {
			t.Errorf("step %d: another catalog: %v", i, got)
		}
		cat, changed := w.next()
		if got := of6(cat); got != step.want {
			t.Errorf("step %d: %d listeners of IPv6, want %d", i, got, step.want)
		}
		for _, name := range []string{"tcp6-keep", "tcp6-plain", "udp-[fd00:96::1]:9000"} {
			if told := slices.Contains(changed[ListenerType], name); i > 0 && told != step.changes {
				t.Errorf("step %d: %s: told %v", i, name, told)
			}
			if is := cat.InWildcard(ListenerType, name); is != (step.want > 0) {
				t.Errorf("step %d: %s is there: %v", i, name, is)
			}
		}
		if !cat.InWildcard(ListenerType, "tcp4-keep") || !cat.InWildcard(ListenerType, "udp-10.96.0.1:9000") {
			t.Errorf("step %d: a listener of IPv4 is gone", i)
		}
	}
}
