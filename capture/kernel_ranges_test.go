package capture

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/topology"
)

// rangesOf are so many that do not neighbour, of one of several lists that have none in common.
func rangesOf(ipv6 bool, list, n int) (ranges []netip.Prefix) {
	for i := range n {
		if ipv6 {
			ranges = append(ranges, netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, byte(list), byte(i >> 7), byte(2 * i)}), 64))
		} else {
			ranges = append(ranges, netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(10 + list), byte(i >> 7), byte(2 * i), 0}), 24))
		}
	}
	return ranges
}

// guarded is a Service of so many ports, at an address of a load balancer's that so many
// ranges of a list may dial.
func guarded(name string, ports int, ipv6 bool, list, ranges int) *topology.Service {
	s := &topology.Service{
		Key: topology.ObjectKey{Namespace: "default", Name: name}, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.2"), netip.MustParseAddr("fd00:96::2")},
		Exposure: &topology.Exposure{LoadBalancers: []netip.Addr{netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("2001:db8:ff::1")}, Sources: rangesOf(ipv6, list, ranges)},
	}
	for i := range ports {
		s.Ports = append(s.Ports, topology.ServicePort{Protocol: topology.TCP, Port: uint16(80 + i)})
	}
	return s
}

// mostSlower is how much longer the two may take together than each without the other: all pairs
// of them would be fifty times as many elements, of which each takes the kernel longer.
const mostSlower = 5

// Who changes all ranges of a Service of many ports, again and again, holds up nobody: while
// that is written the agent follows no change of others, and so what it costs is that of the ports
// and that of the ranges, and not of all pairs. Of both lists the ranges are in force when they
// are wanted, and nothing is left of the other.
func TestRangesThatChangeHoldUpNobody(t *testing.T) {
	const ports, ranges = 50, 160
	for _, ipv6 := range []bool{false, true} {
		alone := changeRanges(t, ipv6, ports, 1) + changeRanges(t, ipv6, 1, ranges)
		both := changeRanges(t, ipv6, ports, ranges)
		t.Logf("ipv6 %v, the fastest changes of %d ports and %d ranges: %s together, %s apart", ipv6, ports, ranges, both, alone)
		if both > mostSlower*alone {
			t.Errorf("ipv6 %v: %s, more than %d times %s", ipv6, both, mostSlower, alone)
		}
	}
}

// changeRanges changes all ranges of a Service so often that load of others is not in all of
// it, looks at what is in force, and returns what the fastest took.
func changeRanges(t *testing.T, ipv6 bool, ports, ranges int) (fastest time.Duration) {
	t.Helper()
	t.Run(fmt.Sprintf("ipv6 %v, %d ports, %d ranges", ipv6, ports, ranges), func(t *testing.T) {
		testkit.NewNetwork(t)
		c := starting(t, kernelConfig(), testHost(t))
		world := newCluster()
		world.viewer = topology.NewViewer("n0", topology.Options{Datapath: topology.DatapathKernel})
		for i := range 8 {
			world.SetService(guarded("worst", ports, ipv6, i%2, ranges))
			begin := time.Now()
			must(t, c.serveInKernel(world.view(), false))
			took := time.Since(begin)
			if t.Logf("change %d: %s", i, took); i == 1 || i > 1 && took < fastest { // the first makes them
				fastest = took
			}
			elements, err := readElements()
			must(t, err)
			family := map[bool]rules.Family{false: rules.IPv4, true: rules.IPv6}[ipv6]
			if n := len(elements[rules.Limited.For(family)]); n != ports {
				t.Errorf("%d pairs are guarded, want %d", n, ports)
			}
			there, err := c.kernel.table.chainsThere()
			must(t, err)
			lists := there.lists
			if len(lists) != 1 || !slices.Equal(lists[0].Of, rangesOf(ipv6, i%2, ranges)) {
				t.Errorf("change %d: %d lists: %v", i, len(lists), lists)
			}
		}
	})
	return fastest
}

// A Service of as many pairs and ranges as one may have holds up nobody: with another it is
// written at once, the other is served, and of it nothing is open.
func TestRangesOfOneServiceHoldUpNobody(t *testing.T) {
	l := newKernelLab(t, kernelConfig())
	l.serve(t, "b", l.b)
	c := newCluster().serve("web", "10.96.0.1", "10.244.0.6").serve("worst", "10.96.0.2", "10.244.0.6")
	c.viewer = topology.NewViewer("n0", topology.Options{Datapath: topology.DatapathKernel})
	for i := range 4 {
		c.SetService(guarded("worst", 4096, false, i%2, 1000))
		begin := time.Now()
		must(t, l.serveInKernel(c.view(), false))
		took := time.Since(begin)
		// Pair by pair it would be four million elements: minutes.
		if t.Logf("change %d: %s", i, took); took > 30*time.Second {
			t.Errorf("change %d was written in %s", i, took)
		}
	}
	elements, err := readElements()
	must(t, err)
	if n := len(elements[rules.Limited.For(rules.IPv4)]); n != 4096 {
		t.Errorf("%d pairs are guarded", n)
	}
	if name, _ := once(t, l.a, "", "10.96.0.1:80"); name != "b" {
		t.Errorf("%q answers for the other", name)
	}
	for _, to := range []string{"203.0.113.1:80", "203.0.113.1:82", "203.0.113.1:4000"} {
		if name, _ := once(t, l.outside, "", to); name == "b" {
			t.Errorf("%s is open to everybody", to)
		}
	}
}

// A list that a run before left is found by its name; what is in it is read, and mended.
func TestListsOfARunBeforeAreRead(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	host := testHost(t)
	all := map[string][]plan.KernelFrontend{"web": example()}
	must(t, starting(t, kernelConfig(), host).setKernel(all, false))
	want, k := kernelState(t), newKernelTable(kernelConfig())
	k.conn.FlushSet(listIn(t, k))
	must(t, k.conn.Flush())
	for _, provisional := range []bool{true, false} {
		c := starting(t, kernelConfig(), host)
		must(t, c.setKernel(all, provisional))
		if got := kernelState(t); !maps.Equal(got, want) {
			t.Errorf("provisional %v: %d elements and chains, want %d", provisional, len(got), len(want))
		}
	}
}

// Services that let in the same share a list, in each family, and it goes with the last of them.
func TestServicesShareAList(t *testing.T) {
	t.Parallel()
	testkit.NewNetwork(t)
	c := starting(t, kernelConfig(), testHost(t))
	sources := slices.Concat(rangesOf(false, 0, 3), rangesOf(true, 0, 3))
	front := func(to string, sources []netip.Prefix) []plan.KernelFrontend {
		return []plan.KernelFrontend{{Frontend: tcp(to), Tiers: tiers(strings.HasPrefix(to, "["), "b"), Outside: &plan.KernelOutside{Sources: sources}}}
	}
	for i, step := range []struct {
		changed map[string][]plan.KernelFrontend
		lists   int
	}{
		{map[string][]plan.KernelFrontend{"a/a": front("203.0.113.1:80", sources), "b/b": front("203.0.113.2:80", slices.Clone(sources))}, 1},
		{map[string][]plan.KernelFrontend{"c/c": front("[2001:db8:ff::1]:80", sources)}, 2},
		{map[string][]plan.KernelFrontend{"a/a": nil}, 2},
		{map[string][]plan.KernelFrontend{"b/b": front("203.0.113.2:80", sources[1:])}, 2},
		{map[string][]plan.KernelFrontend{"b/b": nil, "c/c": nil}, 0},
	} {
		must(t, c.setKernel(step.changed, false))
		there, err := c.kernel.table.chainsThere()
		must(t, err)
		lists := there.lists
		found, err := c.kernel.table.found()
		must(t, err)
		sets := 0
		for _, s := range found.Sets {
			if _, ok := rules.ParseRanges(s.Name); ok {
				sets++
			}
		}
		if len(lists) != step.lists || sets != step.lists || len(listsAmong(found.Chains)) != step.lists {
			t.Errorf("step %d: %d lists, %d sets, want %d", i, len(lists), sets, step.lists)
		}
		if !maps.Equal(found.Apart, c.kernel.table.rules) {
			t.Errorf("step %d: what is there is not what is known", i)
		}
	}
}
