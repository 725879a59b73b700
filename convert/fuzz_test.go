package convert_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/gridmesh/gridmesh/convert"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

// Whatever an object says, it is converted without a crash, to addresses and
// ports that exist, and to something that can be seen from a node, kept in a state
// file and sent: nobody's object is in the way of others'.
func FuzzConvert(f *testing.F) {
	f.Add([]byte(`{"metadata": {"name": "web", "annotations": {"topologyKeys": "[\"site\"]"}}, "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 80}]}}`))
	f.Add([]byte(`{"metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}}, "addressType": "IPv4", "ports": [{"port": 80}], "endpoints": [{"addresses": ["10.1.0.1"], "hints": {}}]}`))
	f.Add([]byte(`{"metadata": {"name": "web", "annotations": {"superedge.io/topologyKey": "[\"site\"]", "gridmesh.io/x": ""}}}`))
	f.Add([]byte(`{"spec": {"clusterIPs": ["::ffff:1.2.3.4%x", "0.0.0.0"], "cidrs": ["10.0.0.0/8"]}}`))
	f.Add([]byte(`{"metadata": {"name": "web", "annotations": {"gridmesh.io/datapath": "x` + strings.Repeat("\u20ac", 100) + `", "topologyKeys": "x` + strings.Repeat("\u20ac", topology.MostKeys) + `"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b := topology.NewBuilder()
		var service corev1.Service
		if json.Unmarshal(data, &service) == nil {
			out := convert.Service(&service)
			for _, ip := range out.ClusterIPs {
				if !ip.IsValid() || ip.Is4In6() || ip.Zone() != "" || len(out.ClusterIPs) > 2 {
					t.Errorf("addresses %v", out.ClusterIPs)
				}
			}
			b.SetService(out)
		}
		var slice discoveryv1.EndpointSlice
		if json.Unmarshal(data, &slice) == nil {
			if out := convert.Slice(&slice); out != nil {
				for _, e := range out.Endpoints {
					if !e.Addr.IsValid() || e.Addr.Is6() != out.IPv6 {
						t.Errorf("endpoint %v in a slice of IPv6 = %v", e.Addr, out.IPv6)
					}
				}
				b.SetSlice(out)
			}
		}
		var cidr networkingv1.ServiceCIDR
		if json.Unmarshal(data, &cidr) == nil {
			b.SetServiceCIDRs(convert.ServiceCIDR(&cidr))
		}
		b.SetNode(convert.Node(&service.ObjectMeta))
		snap := b.Build()
		topology.See(snap, service.Name, topology.Options{})
		kept, err := source.EncodeState(&source.State{Snapshot: snap})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := source.DecodeState(kept); err != nil {
			t.Errorf("what was kept: %v", err)
		}
	})
}
