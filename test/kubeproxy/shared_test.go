package kubeproxy

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// tellSlice tells kube-proxy of a slice as it is.
func (h *history) tellSlice(was, is *discoveryv1.EndpointSlice) {
	if h.shared {
		return // tellResolved does
	}
	for _, k := range h.theirs {
		k.slice(was, is)
	}
}

// tellResolved tells kube-proxy of the endpoints that our rule leaves.
func (h *history) tellResolved() {
	now := resolved(h.slices)
	for name, s := range h.told {
		if now[name] == nil {
			for _, k := range h.theirs {
				k.slice(s, nil)
			}
		}
	}
	for name, s := range now {
		if was := h.told[name]; !reflect.DeepEqual(was, s) {
			for _, k := range h.theirs {
				k.slice(was, s)
			}
		}
	}
	h.told = now
}

// resolved is of each address and port of a Service one endpoint, in a slice of its
// own: one that runs before one that ends, then one of this node, then one that is
// ready, then one that serves, then by node, one without last; then the first.
func resolved(all map[string]*discoveryv1.EndpointSlice) map[string]*discoveryv1.EndpointSlice {
	winners := map[string]*discoveryv1.EndpointSlice{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := all[name]
		if !watched(s.Labels) {
			continue
		}
		for _, p := range s.Ports {
			for _, ep := range s.Endpoints {
				one := &discoveryv1.EndpointSlice{ObjectMeta: *s.ObjectMeta.DeepCopy(), AddressType: s.AddressType, Ports: []discoveryv1.EndpointPort{p}, Endpoints: []discoveryv1.Endpoint{ep}}
				one.Name = fmt.Sprint(s.Labels["kubernetes.io/service-name"], " ", *p.Name, " ", *p.Protocol, " ", *p.Port, " ", ep.Addresses[0])
				if is := winners[one.Name]; is == nil || slices.Compare(rank(ep), rank(is.Endpoints[0])) < 0 {
					winners[one.Name] = one
				}
			}
		}
	}
	return winners
}

// rank orders endpoints of one address, the one that has it first.
func rank(ep discoveryv1.Endpoint) []string {
	worse := func(is bool) string { return fmt.Sprint(is) } // "false" is before "true"
	var on string
	if ep.NodeName != nil {
		on = *ep.NodeName
	}
	c := ep.Conditions
	return []string{
		worse(c.Terminating != nil && *c.Terminating), worse(on != node),
		worse(c.Ready != nil && !*c.Ready), worse(c.Serving != nil && !*c.Serving), cmp.Or(on, "~"),
	}
}
