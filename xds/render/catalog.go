package render

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/internal/table"
	"github.com/gridmesh/gridmesh/topology"
)

// Catalog is everything that one node's Envoy may ask for, at one moment. It
// is immutable; resources are rendered when they are asked for.
type Catalog struct {
	cfg      Config
	node     string
	clusters *table.Map[string, *Entry]
	preload  *table.Map[string, bool]
	udp      *table.Map[string, *Resource]
	Problems []topology.Problem
	// Notices are what Services ask for and Envoy does not serve; nobody made a mistake.
	Notices []topology.Problem
	// Provisional: made from the last good state, which may be older than what
	// a living Envoy holds. It only adds; it neither changes nor removes.
	Provisional bool
	// Keeps: Envoy keeps the clusters that it holds and that are not preloaded any more,
	// for the kernel may hand it connections to them.
	Keeps bool
}

// Entry is a cluster: a frontend of a Service.
type Entry struct {
	Service  topology.ObjectKey
	Keyed    bool
	Frontend *topology.FrontendView
}

// near reports whether the cluster's first tier, if it has any, is of a unit.
func (e *Entry) near() bool {
	tiers := e.Frontend.Tiers
	return e.Keyed && (len(tiers) == 0 || tiers[0].Key != topology.AnyNode)
}

// Keeping is the same catalog, which Keeps.
func (c *Catalog) Keeping() *Catalog {
	kept := *c
	kept.Keeps = true
	return &kept
}

// Entry returns what stands behind a cluster's name.
func (c *Catalog) Entry(name string) (*Entry, bool) { return c.clusters.Get(name) }

// ServiceOf returns the Service that a resource serves.
func (c *Catalog) ServiceOf(typeURL, name string) (topology.ObjectKey, bool) {
	if typeURL == ListenerType {
		name = strings.TrimPrefix(name, udpPrefix) + udpSuffix
	}
	entry, ok := c.clusters.Get(name)
	if !ok {
		return topology.ObjectKey{}, false
	}
	return entry.Service, true
}

// Names returns the name of every cluster, sorted.
func (c *Catalog) Names() []string {
	return c.clusters.SortedKeys(strings.Compare)
}

// Preloaded reports whether Envoy holds the cluster without asking for it.
func (c *Catalog) Preloaded(name string) bool {
	_, ok := c.preload.Get(name)
	return ok
}

// PreloadedLen is how many clusters Envoy holds without asking for them.
func (c *Catalog) PreloadedLen() int { return c.preload.Len() }

// Wildcard returns the names of a type that are served without being asked for.
func (c *Catalog) Wildcard(typeURL string) []string {
	var list []string
	switch typeURL {
	case ClusterType:
		for name := range c.preload.All() {
			list = append(list, name)
		}
	case ListenerType:
		for _, l := range Listeners(c.cfg) {
			list = append(list, l.Name)
		}
		for name := range c.udp.All() {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// InWildcard reports whether Wildcard has the name.
func (c *Catalog) InWildcard(typeURL, name string) bool {
	switch typeURL {
	case ClusterType:
		return c.Preloaded(name)
	case ListenerType:
		_, found := c.Resource(typeURL, name)
		return found
	}
	return false
}

// Resource renders one resource. A cluster that is not found is an empty one, and
// so are its endpoints: a removal would make Envoy wait for the name each time.
// A listener that is not found is none.
func (c *Catalog) Resource(typeURL, name string) (Resource, bool) {
	entry, found := c.clusters.Get(name)
	switch typeURL {
	case ClusterType:
		return Cluster(ClusterSpec{Name: name, Near: found && entry.near()}, c.cfg), true
	case EndpointType:
		if !found {
			return Endpoints(name, topology.TCP, nil), true
		}
		return Endpoints(name, entry.Frontend.Protocol, entry.Frontend.Tiers), true
	case ListenerType:
		for _, l := range Listeners(c.cfg) {
			if l.Name == name {
				return l, true
			}
		}
		if l, ok := c.udp.Get(name); ok {
			return *l, true
		}
	}
	return Resource{}, false
}

// EndpointsOf is how many endpoints a cluster has.
func (c *Catalog) EndpointsOf(name string) int {
	entry, ok := c.clusters.Get(name)
	if !ok {
		return 0
	}
	return endpointsOf(entry.Frontend)
}

// Part renders the endpoints of a cluster, so many at most: the nearest, and of those
// that are as near others on each node.
func (c *Catalog) Part(name string, most int) Resource {
	entry, ok := c.clusters.Get(name)
	if !ok {
		return Endpoints(name, topology.TCP, nil)
	}
	return Endpoints(name, entry.Frontend.Protocol, topology.Part(eachOnce(entry.Frontend.Tiers), most, c.node))
}

// Changed is what differs from the catalog before, by type.
type Changed map[string][]string

// Cataloger keeps one node's catalog as views go by, in O(changed). It has
// one owner.
type Cataloger struct {
	cfg     Config
	view    *topology.View
	preload *preloader
	udp     *udpChooser
	last    *Catalog
}

// NewCataloger starts from nothing; at most preloadMax clusters are preloaded, and
// fewer where they have many endpoints.
func NewCataloger(cfg Config, preloadMax int) *Cataloger {
	return &Cataloger{cfg: cfg, preload: newPreloader(preloadMax), udp: newUDPChooser(cfg.MaxUDP), last: &Catalog{cfg: cfg}}
}

// Used sets the clusters that stay preloaded because they are used, and where there is
// room those that are idle since they were near, all of them, what is to go first first. It
// reports whether Next may make another catalog of it.
func (c *Cataloger) Used(idle, used []string) bool {
	changed, anew := c.preload.setUsed(idle, used)
	for _, name := range changed {
		if entry, ok := c.last.clusters.Get(name); ok {
			sv, _ := c.view.Services.Get(entry.Service)
			anew = c.preload.rerank(name, c.preload.bidOf(name, sv, entry.Frontend)) || anew
		}
	}
	return anew
}

// Fallen are the clusters that Envoy held as near and that are near no more, since Used was
// called, sorted: until it is called again they are idle, and a Service's that is deleted is
// none.
func (c *Cataloger) Fallen() []string { return slices.Sorted(maps.Keys(c.preload.used.fallen)) }

// Restore takes names of a run before: those of clusters with UDP listeners
// come first when listeners are dealt. It returns the others.
func (c *Cataloger) Restore(names []string) (others []string) {
	for _, name := range names {
		if OfUDP(name) {
			c.udp.had[name] = true
		} else {
			others = append(others, name)
		}
	}
	return others
}

// Listening are the clusters that have UDP listeners, sorted, for Restore.
func (c *Cataloger) Listening() []string { return slices.Sorted(maps.Keys(c.udp.open)) }

// IPv6 says whether the node has IPv6, which a listener needs that is bound to
// an address of it; before it is said it has. It reports whether Next may make
// another catalog of it.
func (c *Cataloger) IPv6(has bool) bool {
	if c.cfg.NoIPv6 != has {
		return false
	}
	c.cfg.NoIPv6, c.udp.noIPv6, c.udp.stale = !has, !has, true
	return true
}

// At says what time it is, for Envoy holds UDP listeners that were closed for a
// while. It reports whether Next may make another catalog of it.
func (c *Cataloger) At(now time.Time) bool { return c.udp.pass(now) }

// Next takes the next view. A provisional one is made from the last good state.
func (c *Cataloger) Next(v *topology.View, provisional bool) (*Catalog, Changed) {
	clusters, udp := c.last.clusters.Edit(), c.last.udp.Edit()
	touched := slices.Collect(v.Changed(c.view))
	for _, key := range touched {
		if was, ok := c.view.Service(key); ok {
			c.forget(was, clusters)
		}
	}
	for _, key := range touched {
		if is, ok := v.Services.Get(key); ok {
			c.enter(is, clusters)
		}
	}
	maps.DeleteFunc(c.preload.used.fallen, func(name string, _ bool) bool { _, ok := clusters.Get(name); return !ok })
	c.view = v
	added, gone := c.preload.choose()
	opened, closed := c.udp.choose()
	for _, f := range opened {
		l := UDPListener(f.Frontend)
		udp.Set(l.Name, &l)
		added = append(added, ClusterName(f.Frontend)) // it has no way to ask for it
	}
	for _, name := range closed {
		udp.Delete(ListenerOf(name))
		gone = append(gone, name)
	}
	preload := c.last.preload.Edit()
	for _, name := range added {
		preload.Set(name, true)
	}
	for _, name := range gone {
		preload.Delete(name)
	}
	next := &Catalog{
		cfg: c.cfg, node: v.Viewpoint.Name, clusters: clusters.Freeze(), udp: udp.Freeze(), preload: preload.Freeze(),
		Problems: slices.Concat(c.preload.problems(), c.udp.said), Notices: c.udp.noted, Provisional: provisional,
	}
	changed := Changed{}
	// What is not preloaded may have fewer endpoints than what is.
	changed[EndpointType] = slices.Concat(slices.Collect(c.last.clusters.Changed(next.clusters)), added, gone)
	changed[ClusterType] = changed[EndpointType]
	changed[ListenerType] = slices.Collect(c.last.udp.Changed(next.udp))
	if c.last.cfg.NoIPv6 != next.cfg.NoIPv6 {
		changed[ListenerType] = append(changed[ListenerType], listenersOfIPv6()...)
	}
	c.last = next
	return next, changed
}

func (c *Cataloger) forget(s *topology.ServiceView, clusters *table.Edit[string, *Entry]) {
	for i := range s.Frontends {
		f := &s.Frontends[i]
		name := ClusterName(f.Frontend)
		clusters.Delete(name)
		c.preload.set(name, noBid)
		if f.Protocol == topology.UDP {
			c.udp.forget(name)
		}
	}
}

func (c *Cataloger) enter(s *topology.ServiceView, clusters *table.Edit[string, *Entry]) {
	for i := range s.Frontends {
		f := &s.Frontends[i]
		if f.Protocol != topology.TCP && f.Protocol != topology.UDP {
			continue
		}
		name := ClusterName(f.Frontend)
		// Also where the kernel serves it: a connection that was handed over just
		// before that, or by rules of a run before, is not to end.
		clusters.Set(name, &Entry{Service: s.Key, Keyed: s.Keys.Mode != topology.NoKeys, Frontend: f})
		c.preload.set(name, c.preload.bidOf(name, s, f))
		if f.Protocol == topology.UDP && f.Path == topology.PathEnvoy {
			c.udp.enter(name, s, f)
		}
	}
}
