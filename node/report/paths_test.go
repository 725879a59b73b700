package report

import (
	"net/netip"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

// What this node may use no endpoint of counts as refused, whosever it is, until it has one
// and from when it has none; what nobody serves is refused by nobody.
func TestRefusedFrontendsAreCounted(t *testing.T) {
	keys := `["site"]`
	b := topology.NewBuilder()
	b.SetNode(&topology.Node{Name: "a-1", Labels: map[string]string{"site": "a"}})
	b.SetNode(&topology.Node{Name: "b-1", Labels: map[string]string{"site": "b"}})
	ports := []topology.ServicePort{{Name: "t", Port: 80, Protocol: topology.TCP, NodePort: 30080}, {Name: "u", Port: 53, Protocol: topology.UDP}}
	b.SetService(&topology.Service{Key: topology.ObjectKey{Namespace: "default", Name: "web"}, TopologyKeys: &keys, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")}, Ports: ports})
	on := func(node string) {
		b.SetSlice(&topology.Slice{
			Key: topology.ObjectKey{Namespace: "default", Name: "w"}, Service: "web",
			Ports:     []topology.SlicePort{{Name: "t", Port: 80, Protocol: topology.TCP}},
			Endpoints: []topology.Endpoint{{Addr: netip.MustParseAddr("10.1.0.1"), Node: node, Ready: true, Serving: true}},
		})
	}
	auto := topology.NewViewer("a-1", topology.Options{Datapath: topology.DatapathAuto})
	var index PathIndex
	for _, tc := range []struct {
		what string
		do   func()
		want Paths
	}{
		{"no endpoint", func() {}, Paths{Envoy: 1, Kernel: 2, Refused: 3, RefusedEnvoy: 1}},
		{"one here, of a port", func() { on("a-1") }, Paths{Envoy: 1, Kernel: 2, Refused: 1}},
		{"it went to another unit", func() { on("b-1") }, Paths{Envoy: 1, Kernel: 2, Refused: 3, RefusedEnvoy: 1}},
	} {
		if tc.do(); index.Next(auto.See(b.Build())) != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.what, index.now, tc.want)
		}
	}
	var outside PathIndex
	if got, want := outside.Next(topology.See(b.Build(), "a-1", topology.Options{Outside: true})), (Paths{Envoy: 2, None: 1, Refused: 2, RefusedEnvoy: 2}); got != want {
		t.Errorf("without a kernel path: %+v, want %+v", got, want)
	}
}
