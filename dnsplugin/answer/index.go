package answer

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/gridmesh/gridmesh/topology"
)

// Config is what the operator chose.
type Config struct {
	// Services: ClusterIP Services are answered too, and PTR.
	Services bool
	// Strict hides the pods of other units, which else resolve by their full name.
	Strict bool
	// EmptyNXDomain: a name that stands for no endpoint in this unit, but for
	// some in others, does not exist. The default is that it exists and is empty.
	EmptyNXDomain bool
}

// Index is the names of one snapshot, seen from one node. It is immutable.
type Index struct {
	cfg      Config
	snapshot *topology.Snapshot
	view     *topology.View
	services *topology.Table[string, *service] // by "service.namespace"
	pointers *topology.Table[netip.Addr, *pointer]
}

// service is one Service's names.
type service struct {
	headless bool
	ips      []netip.Addr
	ports    []topology.ServicePort
	members  []host // of this unit, or of the tier that stands in for it
	exists   bool   // an endpoint is ready, wherever it is
	// hosts are the names below the Service's: hostnames of pods, and ordinals.
	hosts    map[string]*host
	ordinals map[string]string // of this unit -> name of the pod
	// elsewhere are ordinals that other units have.
	elsewhere map[string]bool
}

// host is one name below a Service's, with its addresses.
type host struct {
	name  string
	addrs []netip.Addr
	ports []topology.SlicePort
}

// New returns an index of nothing.
func New(cfg Config) *Index { return &Index{cfg: cfg} }

// Next is the index of a later snapshot. It costs what changed.
func (x *Index) Next(s *topology.Snapshot, v *topology.View) *Index {
	next := &Index{cfg: x.cfg, snapshot: s, view: v}
	services, pointers := x.services.Edit(), x.pointers.Edit()
	dirty := map[topology.ObjectKey]bool{}
	for key := range x.before().Services.Changed(s.Services) {
		dirty[key] = true
	}
	for key := range x.seen().Services.Changed(v.Services) {
		dirty[key] = true
	}
	for key := range dirty {
		name := serviceName(key)
		if old, ok := services.Get(name); ok {
			x.point(pointers, name, old, false)
			services.Delete(name)
		}
		entry, _ := s.Services.Get(key)
		sv, _ := v.Services.Get(key)
		if entry == nil || sv == nil {
			continue
		}
		if svc := next.service(entry, sv); svc != nil {
			services.Set(name, svc)
			x.point(pointers, name, svc, true)
		}
	}
	next.services, next.pointers = services.Freeze(), pointers.Freeze()
	return next
}

func (x *Index) before() *topology.Snapshot {
	if x.snapshot == nil {
		return &topology.Snapshot{}
	}
	return x.snapshot
}

func (x *Index) seen() *topology.View {
	if x.view == nil {
		return &topology.View{}
	}
	return x.view
}

// Len is the number of Services and of names below them.
func (x *Index) Len() (services, hosts int) {
	for _, svc := range x.services.All() {
		services++
		hosts += len(svc.hosts)
	}
	return services, hosts
}

func serviceName(key topology.ObjectKey) string {
	return strings.ToLower(key.Name + "." + key.Namespace)
}

// service makes the names of one Service; nil for one of which nothing is said.
func (x *Index) service(entry *topology.Entry, sv *topology.ServiceView) *service {
	s := entry.Service
	grid := s.GridKey != "" || entry.Keys().Mode != topology.NoKeys
	if s.Headless && !grid || !s.Headless && !x.cfg.Services && !grid {
		return nil // the watches leave out its endpoints, or others answer
	}
	svc := &service{headless: s.Headless, ips: s.ClusterIPs, ports: s.Ports, hosts: map[string]*host{}, ordinals: map[string]string{}, elsewhere: map[string]bool{}}
	for _, m := range sv.Members {
		svc.members = append(svc.members, host{hostName(m.Hostname, m.Addr), []netip.Addr{m.Addr}, m.Ports})
	}
	x.addHosts(svc, entry)
	return svc
}

// addHosts names the ready endpoints below a Service.
func (x *Index) addHosts(svc *service, entry *topology.Entry) {
	keys := entry.Keys().List
	type alias struct {
		name string
		ep   *topology.Endpoint
		in   *topology.Slice
	}
	var ordinals []alias
	for _, slice := range entry.Slices {
		for i := range slice.Endpoints {
			ep := &slice.Endpoints[i]
			if !ep.Ready {
				continue
			}
			svc.exists = true
			own := len(keys) == 0 || x.sharesUnit(keys[0], ep.Node)
			if ordinal := x.ordinal(keys, ep); ordinal != "" {
				if own {
					ordinals = append(ordinals, alias{ordinal, ep, slice})
				} else {
					svc.elsewhere[ordinal] = true
				}
			}
			if svc.headless && (own || !x.cfg.Strict) {
				svc.add(hostName(ep.Hostname, ep.Addr), ep.Addr, slice.Ports)
			}
		}
	}
	// A pod that has the name of an ordinal keeps it.
	real := make(map[string]bool, len(svc.hosts))
	for name := range svc.hosts {
		real[name] = true
	}
	for _, o := range ordinals {
		if !real[o.name] {
			svc.add(o.name, o.ep.Addr, o.in.Ports)
			svc.ordinals[o.name] = o.ep.Hostname
		}
	}
}

func (svc *service) add(name string, addr netip.Addr, ports []topology.SlicePort) {
	h := svc.hosts[name]
	if h == nil {
		h = &host{name: name, ports: ports}
		svc.hosts[name] = h
	}
	h.addrs = append(h.addrs, addr)
}

// hostName is the name of an endpoint below its Service's: its hostname, or
// its address with dashes.
func hostName(hostname string, addr netip.Addr) string {
	if hostname != "" {
		return strings.ToLower(hostname)
	}
	if addr.Is4() {
		return strings.ReplaceAll(addr.String(), ".", "-")
	}
	return strings.ReplaceAll(addr.String(), ":", "-")
}

// sharesUnit tells whether a node is in this node's unit.
func (x *Index) sharesUnit(key, node string) bool {
	mine, ok := x.view.Viewpoint.Values[key]
	n, _ := x.snapshot.Nodes.Get(node)
	return ok && n != nil && n.Labels[key] == mine
}

// ordinal is the name {set}-{i} of the pod {set}-{unit}-{i}, or "". The unit
// is cut off where it ends, so that one that occurs in the set's name does no
// harm.
func (x *Index) ordinal(keys []string, ep *topology.Endpoint) string {
	if len(keys) == 0 || ep.Hostname == "" {
		return ""
	}
	n, _ := x.snapshot.Nodes.Get(ep.Node)
	if n == nil {
		return ""
	}
	base, number, ok := cutLast(strings.ToLower(ep.Hostname), "-")
	if _, err := strconv.ParseUint(number, 10, 32); !ok || err != nil {
		return ""
	}
	set, ok := strings.CutSuffix(base, "-"+strings.ToLower(n.Labels[keys[0]]))
	if !ok || set == "" || n.Labels[keys[0]] == "" {
		return ""
	}
	return set + "-" + number
}

func cutLast(text, sep string) (before, after string, found bool) {
	i := strings.LastIndex(text, sep)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(sep):], true
}

// point adds or removes the addresses of a Service for PTR.
func (x *Index) point(pointers *topology.TableEdit[netip.Addr, *pointer], name string, svc *service, there bool) {
	if !x.cfg.Services {
		return
	}
	for _, ip := range svc.ips {
		setPointer(pointers, ip, name, there)
	}
	for _, h := range svc.members {
		for _, ip := range h.addrs {
			setPointer(pointers, ip, h.name+"."+name, there)
		}
	}
}

// pointer is what PTR says of an address.
type pointer struct{ names []string }

func setPointer(pointers *topology.TableEdit[netip.Addr, *pointer], ip netip.Addr, name string, there bool) {
	next := &pointer{}
	if old, ok := pointers.Get(ip); ok {
		next.names = slices.DeleteFunc(slices.Clone(old.names), func(n string) bool { return n == name })
	}
	if there {
		next.names = append(next.names, name)
	}
	if len(next.names) == 0 {
		pointers.Delete(ip)
		return
	}
	pointers.Set(ip, next)
}
