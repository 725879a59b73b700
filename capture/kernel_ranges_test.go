package capture

import (
	"net/netip"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/topology"
)

// A Service of as many pairs and ranges as are kept holds up nobody: with another it is
// written in seconds, the other is served, and of it nothing is open.
func TestRangesOfOneServiceHoldUpNobody(t *testing.T) {
	l := newKernelLab(t, kernelConfig())
	l.serve(t, "b", l.b)
	c := newCluster().serve("web", "10.96.0.1", "10.244.0.6").serve("worst", "10.96.0.2", "10.244.0.6")
	c.viewer = topology.NewViewer("n0", topology.Options{Datapath: topology.DatapathKernel})
	worst := &topology.Service{
		Key: topology.ObjectKey{Namespace: "default", Name: "worst"}, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.2")},
		Exposure: &topology.Exposure{LoadBalancers: []netip.Addr{netip.MustParseAddr("203.0.113.1")}},
	}
	for i := range 4096 {
		worst.Ports = append(worst.Ports, topology.ServicePort{Protocol: topology.TCP, Port: uint16(80 + i)})
	}
	for i := range 1000 {
		worst.Exposure.Sources = append(worst.Exposure.Sources, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 7), byte(2 * i), 0}), 24))
	}
	c.SetService(worst)
	begin := time.Now()
	must(t, l.serveInKernel(c.view(), false))
	took := time.Since(begin)
	t.Logf("written in %s", took)
	if took > 35*time.Second {
		t.Errorf("written in %s", took)
	}
	elements, err := readElements()
	must(t, err)
	if n, m := len(elements[rules.Allowed.For(rules.IPv4)]), len(elements[rules.Limited.For(rules.IPv4)]); n != 8000 || m != 8 {
		t.Errorf("%d ranges of %d pairs", n, m)
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
