package nodetest

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/gridmesh/gridmesh/topology"
)

// Objects makes snapshots of a small cluster: nodes in units, and Services
// whose endpoints are on them, all on port 8080.
type Objects struct{ b *topology.Builder }

// NewObjects has nodes a-1 and a-2 in unit a, and b-1 in unit b.
func NewObjects() *Objects {
	o := &Objects{topology.NewBuilder()}
	o.b.SetServiceCIDRs([]netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")})
	o.Node("a-1", "a")
	o.Node("a-2", "a")
	o.Node("b-1", "b")
	return o
}

// Builder is what the snapshots are made with.
func (o *Objects) Builder() *topology.Builder { return o.b }

// Snapshot returns the cluster as it is.
func (o *Objects) Snapshot() *topology.Snapshot { return o.b.Build() }

// Node puts a node into a unit.
func (o *Objects) Node(name, unit string) {
	o.b.SetNode(&topology.Node{Name: name, Labels: map[string]string{"unit": unit}})
}

// Closed sets a Service on port 80 that is closed to its unit, with one
// endpoint on each named node.
func (o *Objects) Closed(name, ip string, endpoints map[string]string) {
	keys := `["unit"]`
	o.service(name, ip, &keys, endpoints)
}

// Plain sets a Service on port 80 without topology keys.
func (o *Objects) Plain(name, ip string, endpoints map[string]string) {
	o.service(name, ip, nil, endpoints)
}

// Delete removes a Service.
func (o *Objects) Delete(name string) {
	key := keyOf(name)
	o.b.DeleteService(key)
	o.b.DeleteSlice(key)
}

// keyOf is the key of "name", which is in the namespace default, or of "namespace/name".
func keyOf(name string) topology.ObjectKey {
	if namespace, name, other := strings.Cut(name, "/"); other {
		return topology.ObjectKey{Namespace: namespace, Name: name}
	}
	return topology.ObjectKey{Namespace: "default", Name: name}
}

// service sets a Service and its slice; endpoints are addresses by node.
func (o *Objects) service(name, ip string, keys *string, endpoints map[string]string) {
	key := keyOf(name)
	o.b.SetService(&topology.Service{
		Key: key, ClusterIPs: []netip.Addr{netip.MustParseAddr(ip)}, TopologyKeys: keys,
		Ports: []topology.ServicePort{{Name: "http", Protocol: topology.TCP, Port: 80}},
	})
	slice := &topology.Slice{Key: key, Service: key.Name, Ports: []topology.SlicePort{{Name: "http", Protocol: topology.TCP, Port: 8080}}}
	for _, node := range slices.Sorted(maps.Keys(endpoints)) {
		addr := endpoints[node]
		slice.Endpoints = append(slice.Endpoints, topology.Endpoint{Addr: netip.MustParseAddr(addr), Node: node, Ready: true, Serving: true})
	}
	o.b.SetSlice(slice)
}

// Gone takes one endpoint out of a Service's slice.
func (o *Objects) Gone(name, addr string) {
	o.edit(name, func(list []topology.Endpoint) []topology.Endpoint {
		return slices.DeleteFunc(list, func(e topology.Endpoint) bool { return e.Addr.String() == addr })
	})
}

// Unready marks endpoints as the cloud does whose node is silent.
func (o *Objects) Unready(name string, addrs ...string) { o.mark(name, false, addrs) }

// Ready marks them as their own kubelet does.
func (o *Objects) Ready(name string, addrs ...string) { o.mark(name, true, addrs) }

func (o *Objects) mark(name string, ready bool, addrs []string) {
	o.edit(name, func(list []topology.Endpoint) []topology.Endpoint {
		for i := range list {
			if slices.Contains(addrs, list[i].Addr.String()) {
				list[i].Ready, list[i].Serving = ready, ready
			}
		}
		return list
	})
}

// edit changes the endpoints of a Service, in a slice of its own.
func (o *Objects) edit(name string, change func([]topology.Endpoint) []topology.Endpoint) {
	key := topology.ObjectKey{Namespace: "default", Name: name}
	entry, _ := o.b.Build().Services.Get(key)
	slice := *entry.Slices[0]
	slice.Endpoints = change(slices.Clone(slice.Endpoints))
	o.b.SetSlice(&slice)
}
