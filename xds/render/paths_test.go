package render

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

// What the kernel serves Envoy holds nothing of beforehand, and has no listener
// for. Asked for it is there: a connection that was handed over just before does
// not end.
func TestClustersOfTheOtherPath(t *testing.T) {
	b := topology.NewBuilder()
	b.SetNode(&topology.Node{Name: "a-1", Labels: map[string]string{"unit": "a"}})
	keys, key := `["unit"]`, topology.ObjectKey{Namespace: "default", Name: "web"}
	b.SetService(&topology.Service{
		Key: key, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")}, TopologyKeys: &keys,
		Ports: []topology.ServicePort{{Name: "t", Protocol: topology.TCP, Port: 80}, {Name: "u", Protocol: topology.UDP, Port: 80}},
	})
	b.SetSlice(&topology.Slice{
		Key: key, Service: "web", Ports: []topology.SlicePort{{Name: "t", Protocol: topology.TCP, Port: 8080}, {Name: "u", Protocol: topology.UDP, Port: 8080}},
		Endpoints: []topology.Endpoint{{Addr: netip.MustParseAddr("10.244.1.5"), Node: "a-1", Ready: true, Serving: true}},
	})
	snap, c := b.Build(), NewCataloger(Default(), 500)
	c.Used(nil, []string{"10.96.0.1:80"})
	for _, step := range []struct {
		path topology.Datapath
		want string // what is preloaded, and the listeners besides the constant ones
	}{
		{topology.DatapathNone, "[10.96.0.1:80 10.96.0.1:80/udp] 1"},
		{topology.DatapathAuto, "[10.96.0.1:80] 0"},
		{topology.DatapathKernel, "[] 0"},
		{topology.DatapathEnvoy, "[10.96.0.1:80] 0"},
	} {
		cat, _ := c.Next(topology.See(snap, "a-1", topology.Options{Datapath: step.path}), false)
		got := fmt.Sprint(cat.Wildcard(ClusterType), len(cat.Wildcard(ListenerType))-len(Listeners(Default())))
		if got != step.want {
			t.Errorf("%q: %s, want %s", step.path, got, step.want)
		}
		if e, ok := cat.Entry("10.96.0.1:80"); !ok || len(e.Frontend.Tiers) != 1 {
			t.Errorf("%q: asked for, Envoy gets %+v", step.path, e)
		}
	}
}
