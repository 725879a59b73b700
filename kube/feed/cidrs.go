package feed

import (
	"context"
	"net/netip"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/gridmesh/gridmesh/convert"
	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/topology"
)

// cidrs are the ranges of each ServiceCIDR object, by its name. A snapshot has
// the ranges of all of them.
type cidrs map[string][]netip.Prefix

func (cidrs) convert(c *networkingv1.ServiceCIDR) []netip.Prefix { return convert.ServiceCIDR(c) }

func (cidrs) weight(*networkingv1.ServiceCIDR) int { return 1 }

func (r cidrs) set(b *topology.Builder, key topology.ObjectKey, ranges []netip.Prefix) bool {
	r[key.Name] = ranges
	return b.SetServiceCIDRs(r.all())
}

func (r cidrs) remove(b *topology.Builder, key topology.ObjectKey) bool {
	delete(r, key.Name)
	return b.SetServiceCIDRs(r.all())
}

func (r cidrs) all() (all []netip.Prefix) {
	for _, ranges := range r {
		all = append(all, ranges...)
	}
	return all
}

// sinceKubernetes133 asks for ServiceCIDRs: API servers before 1.33 have none,
// and their ranges are a flag's.
func sinceKubernetes133(c *kube.Client) listWatcher[*networkingv1.ServiceCIDRList] {
	return newer[*networkingv1.ServiceCIDRList]{
		api:  c.Typed.NetworkingV1().ServiceCIDRs(),
		none: func() *networkingv1.ServiceCIDRList { return &networkingv1.ServiceCIDRList{} },
		has: func(ctx context.Context) (bool, error) {
			return c.Has(ctx, networkingv1.SchemeGroupVersion.WithResource("servicecidrs"))
		},
	}
}
