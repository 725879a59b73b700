package nodetest

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/grpc"

	"github.com/gridmesh/gridmesh/xds"
	"github.com/gridmesh/gridmesh/xds/render"
)

// XDS is a twin of xds.Server and of the one Envoy that is connected to it.
type XDS struct {
	requested func([]string)
	refused   func(xds.Nack)
	journal   *Journal

	mu        sync.Mutex
	catalog   *render.Catalog
	connected *xds.Stream
	asked     map[string]bool
	kept      map[string]bool   // held, and not preloaded any more
	pending   []string          // asked for before there was a catalog
	refuses   map[string]string // cluster -> reason
	nacks     map[string]xds.Nack
	answers   chan struct{} // ends when Envoy is slow no more; nil: it is not
	waited    time.Duration // by who awaits it
}

// NewXDS makes the twin of a server; nobody is connected.
func NewXDS(j *Journal, requested func([]string), refused func(xds.Nack)) *XDS {
	return &XDS{requested: requested, refused: refused, journal: j, asked: map[string]bool{}, kept: map[string]bool{}, refuses: map[string]string{}, nacks: map[string]xds.Nack{}}
}

// Register implements node.XDS.
func (x *XDS) Register(*grpc.Server) {}

// Update implements node.XDS.
func (x *XDS) Update(cat *render.Catalog, changed render.Changed) {
	x.journal.add("Update")
	x.mu.Lock()
	x.keep(cat)
	x.catalog = cat
	pending := x.pending
	x.pending = nil
	for _, name := range changed[render.ClusterType] {
		delete(x.nacks, name)
	}
	said := x.refuse()
	x.mu.Unlock()
	if len(pending) > 0 {
		x.requested(pending)
	}
	for _, n := range said {
		x.refused(n)
	}
}

// Await implements node.XDS: the twin's Envoy takes everything at once, or nothing.
func (x *XDS) Await(clusters []string, within time.Duration) bool {
	x.journal.add("Await(" + strings.Join(slices.Sorted(slices.Values(clusters)), ",") + ")")
	x.mu.Lock()
	answers := x.answers
	x.mu.Unlock()
	if answers == nil {
		return true
	}
	over := time.NewTimer(within)
	defer over.Stop()
	select {
	case <-answers:
		return true
	case <-over.C:
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.waited += within
	return false
}

// Waited is for how long it was awaited in vain, all in all.
func (x *XDS) Waited() time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.waited
}

// Slow has Envoy answer nothing, or everything at once again, also what it was told meanwhile.
func (x *XDS) Slow(slow bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case slow && x.answers == nil:
		x.answers = make(chan struct{})
	case !slow && x.answers != nil:
		close(x.answers)
		x.answers = nil
	}
}

// keep has Envoy keep what it holds, where a catalog says so.
func (x *XDS) keep(cat *render.Catalog) {
	if !cat.Keeps {
		x.kept = map[string]bool{}
	} else if x.catalog != nil && x.connected != nil {
		for _, name := range x.catalog.Wildcard(render.ClusterType) {
			x.kept[name] = true
		}
	}
}

// Streams implements node.XDS.
func (x *XDS) Streams() []xds.Stream {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.connected == nil || x.catalog == nil {
		return nil
	}
	return []xds.Stream{*x.connected}
}

// Nacks implements node.XDS.
func (x *XDS) Nacks() []xds.Nack {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Collect(maps.Values(x.nacks))
}

// Connect lets Envoy connect.
func (x *XDS) Connect(version string) {
	x.mu.Lock()
	x.connected = &xds.Stream{Node: "envoy", Version: version, Since: time.Now()}
	said := x.refuse()
	x.mu.Unlock()
	for _, n := range said {
		x.refused(n)
	}
}

// Disconnect ends Envoy's stream.
func (x *XDS) Disconnect() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.connected, x.asked, x.kept, x.nacks = nil, map[string]bool{}, map[string]bool{}, map[string]xds.Nack{}
}

// Ask lets Envoy ask for clusters by name, as it does at their first use.
func (x *XDS) Ask(names ...string) {
	x.mu.Lock()
	for _, name := range names {
		x.asked[name] = true
	}
	wait := x.catalog == nil
	if wait {
		x.pending = append(x.pending, names...)
	}
	x.mu.Unlock()
	if !wait {
		x.requested(names)
	}
}

// Refuse lets Envoy refuse a cluster from now on.
func (x *XDS) Refuse(name, reason string) {
	x.mu.Lock()
	x.refuses[name] = reason
	said := x.refuse()
	x.mu.Unlock()
	for _, n := range said {
		x.refused(n)
	}
}

// refuse notes what Envoy refuses of what it is sent, and returns what is new.
func (x *XDS) refuse() (said []xds.Nack) {
	if x.catalog == nil || x.connected == nil {
		return nil
	}
	for name, reason := range x.refuses {
		service, there := x.catalog.ServiceOf(render.ClusterType, name)
		if x.nacks[name].Reason == reason || !there {
			continue
		}
		n := xds.Nack{Type: "cluster", Name: name, Service: service.String(), Reason: reason, At: time.Now()}
		x.nacks[name] = n
		said = append(said, n)
	}
	return said
}

// Holds returns the endpoints that Envoy has for a cluster; false where it
// does not hold the cluster.
func (x *XDS) Holds(name string) (endpoints []string, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.catalog == nil || x.connected == nil || x.nacks[name].Name != "" || !x.asked[name] && !x.kept[name] && !x.catalog.Preloaded(name) {
		return nil, false
	}
	entry, known := x.catalog.Entry(name)
	if !known {
		return nil, true
	}
	for _, tier := range entry.Frontend.Tiers {
		for _, e := range tier.Endpoints {
			endpoints = append(endpoints, e.Addr.String())
		}
	}
	return endpoints, true
}

// Unhealthy returns those of its endpoints that Envoy is told to send nobody to.
func (x *XDS) Unhealthy(name string) (endpoints []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.catalog == nil {
		return nil
	}
	resource, _ := x.catalog.Resource(render.EndpointType, name)
	for _, locality := range resource.Message().(*endpoint.ClusterLoadAssignment).GetEndpoints() {
		for _, e := range locality.GetLbEndpoints() {
			if e.GetHealthStatus() == core.HealthStatus_UNHEALTHY {
				at := e.GetEndpoint().GetAddress().GetSocketAddress()
				endpoints = append(endpoints, at.GetAddress())
			}
		}
	}
	return endpoints
}
