package node

import (
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/gridmesh/gridmesh/node/statedir"
	"github.com/gridmesh/gridmesh/topology"
)

// A tenant's Service, which is near and kept, has a far one's ClusterIP among its external
// addresses, which was refused to it. The far one is not kept: a node that boots without a
// cloud must not find that address the tenant's.
func TestABootWithoutACloudGivesNobodyOthersAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.withKernelPath(topology.DatapathAuto)
		r.mustStart(t)
		o := webOnly()
		o.Plain("far", "10.96.0.50", map[string]string{"b-1": "10.244.9.9"})
		entry, _ := o.Snapshot().Services.Get(topology.ObjectKey{Namespace: "default", Name: "web"})
		tenant := *entry.Service
		own := netip.MustParseAddr("203.0.113.6")
		tenant.Created, tenant.Exposure = 2, &topology.Exposure{ExternalIPs: []netip.Addr{netip.MustParseAddr("10.96.0.50"), own}}
		o.Builder().SetService(&tenant)
		r.publish(o)
		after(statedir.SaveInterval)
		r.stop()
		kept := r.saved(t).Snapshot.Services
		if n := kept.Len(); n != 1 {
			t.Fatalf("%d Services are kept, want the tenant's alone", n)
		}
		entry, _ = kept.Get(tenant.Key)
		if list := entry.Service.Exposure.ExternalIPs; len(list) != 1 || list[0] != own {
			t.Errorf("the tenant's external addresses are kept as %v, want %s alone", list, own)
		}
	})
}
