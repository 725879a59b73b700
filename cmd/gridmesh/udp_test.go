package main

import (
	"net/netip"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds/render"
)

// What Envoy gets no listener for is asked for by rows and by notices, and found once:
// a catalog is made of all Services.
func TestRefusedUDPIsFoundOnce(t *testing.T) {
	b, keys, key := topology.NewBuilder(), `["site"]`, topology.ObjectKey{Namespace: "default", Name: "vxlan"}
	b.SetNode(&topology.Node{Name: "a1", Labels: map[string]string{"site": "a"}})
	b.SetService(&topology.Service{Key: key, TopologyKeys: &keys, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")}, Ports: []topology.ServicePort{{Protocol: topology.UDP, Port: 4789}}})
	b.SetSlice(&topology.Slice{
		Key: key, Service: key.Name, Ports: []topology.SlicePort{{Protocol: topology.UDP, Port: 4789}},
		Endpoints: []topology.Endpoint{{Addr: netip.MustParseAddr("10.1.0.1"), Node: "a1", Ready: true, Serving: true}},
	})
	opts := topology.Options{Datapath: topology.DatapathNone}
	snap := b.Build()
	w := &world{snap: snap, view: topology.See(snap, "a1", opts), opts: opts, catalogs: map[int]*render.Catalog{}}
	if n := len(w.udpRefused()); n != 1 {
		t.Fatalf("%d are refused, want 1", n)
	}
	if made := testing.AllocsPerRun(10, func() { w.udpRefused() }); made > 0 {
		t.Errorf("asked again, it made %v things", made)
	}
}
