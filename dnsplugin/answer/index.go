package answer

import (
	"iter"
	"net/netip"
	"strconv"
	"strings"

	"github.com/gridmesh/gridmesh/internal/table"
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
	services *table.Map[string, *service] // by "service.namespace"
	pointers *table.Map[netip.Addr, *pointer]
	hosts    int // names below all Services
	// namespaces counts the Services of each.
	namespaces *table.Map[string, int]
}

// service is one Service's names. There are thousands: what is empty is nil.
type service struct {
	headless bool
	ips      []netip.Addr
	ports    []topology.ServicePort
	members  []member // of this unit, or of the tier that stands in for it
	exists   bool     // an endpoint is ready, wherever it is
	// hosts are the names below the Service's: hostnames of pods, and ordinals.
	hosts map[string]addresses
	// elsewhere are ordinals that other units have, and this one lacks.
	elsewhere map[string]bool
}

// member is one endpoint behind a headless name.
type member struct {
	name  string
	addr  netip.Addr
	ports []topology.SlicePort
}

// addresses of one name: most have one.
type addresses struct {
	first netip.Addr
	more  *[]netip.Addr
}

func (a addresses) all() []netip.Addr {
	if a.more == nil {
		return []netip.Addr{a.first}
	}
	return *a.more
}

// New returns an index of nothing.
func New(cfg Config) *Index {
	return &Index{cfg: cfg, snapshot: &topology.Snapshot{}, view: &topology.View{}}
}

// Next is the index of a later snapshot. It costs what changed.
func (x *Index) Next(s *topology.Snapshot, v *topology.View) *Index {
	next := &Index{cfg: x.cfg, snapshot: s, view: v, hosts: x.hosts}
	services, pointers, namespaces := x.services.Edit(), x.pointers.Edit(), x.namespaces.Edit()
	dirty := map[topology.ObjectKey]bool{}
	for key := range x.snapshot.Services.Changed(s.Services) {
		dirty[key] = true
	}
	for key := range x.view.Services.Changed(v.Services) {
		dirty[key] = true
	}
	for key := range dirty {
		name := serviceName(key)
		if old, ok := services.Get(name); ok {
			x.point(pointers, name, old, false)
			services.Delete(name)
			next.hosts -= len(old.hosts)
		}
		entry, _ := s.Services.Get(key)
		count(namespaces, key.Namespace, exists(s, key)-exists(x.snapshot, key))
		sv, _ := v.Services.Get(key)
		if entry == nil || sv == nil {
			continue
		}
		if svc := next.service(entry, sv); svc != nil {
			services.Set(name, svc)
			next.hosts += len(svc.hosts)
			x.point(pointers, name, svc, true)
		}
	}
	next.services, next.pointers, next.namespaces = services.Freeze(), pointers.Freeze(), namespaces.Freeze()
	return next
}

// exists is 1 where a snapshot has a Service, and not slices alone, else 0.
func exists(s *topology.Snapshot, key topology.ObjectKey) int {
	if entry, _ := s.Services.Get(key); entry == nil || entry.Service == nil {
		return 0
	}
	return 1
}

func count(namespaces *table.Edit[string, int], name string, more int) {
	n, _ := namespaces.Get(name)
	if n += more; n == 0 {
		namespaces.Delete(name)
	} else if more != 0 {
		namespaces.Set(name, n)
	}
}

// Len is the number of Services and of names below them.
func (x *Index) Len() (services, hosts int) { return x.services.Len(), x.hosts }

func serviceName(key topology.ObjectKey) string {
	return strings.ToLower(key.Name + "." + key.Namespace)
}

// service makes the names of one Service; nil for one of which nothing is said.
func (x *Index) service(entry *topology.Entry, sv *topology.ServiceView) *service {
	s := entry.Service
	switch grid := s.GridKey != ""; {
	case s.Foreign, s.Headless && !grid: // the watches leave out its endpoints
		return nil
	case !s.Headless && !grid && !x.cfg.Services && entry.Keys().Mode == topology.NoKeys: // others answer
		return nil
	}
	svc := &service{headless: s.Headless, ips: s.ClusterIPs, ports: s.Ports}
	if len(sv.Members) > 0 {
		svc.members = make([]member, len(sv.Members))
	}
	for i, m := range sv.Members {
		svc.members[i] = member{hostName(m.Hostname, m.Addr), m.Addr, m.Ports}
	}
	x.addHosts(svc, entry)
	return svc
}

// addHosts names the ready endpoints below a Service.
func (x *Index) addHosts(svc *service, entry *topology.Entry) {
	keys := entry.Keys().List
	own, elsewhere := map[string][]netip.Addr{}, map[string]bool{} // ordinals
	for ep := range ready(entry) {
		svc.exists = true
		mine := len(keys) == 0 || x.sharesUnit(keys[0], ep.Node)
		if ordinal := x.ordinal(keys, ep); ordinal != "" {
			if mine {
				own[ordinal] = append(own[ordinal], ep.Addr)
			} else {
				elsewhere[ordinal] = true
			}
		}
		if svc.headless && (mine || !x.cfg.Strict) {
			svc.add(hostName(ep.Hostname, ep.Addr), ep.Addr)
		}
	}
	for name := range svc.hosts {
		delete(own, name) // a pod that has the name of an ordinal keeps it
	}
	for name, addrs := range own {
		for _, addr := range addrs {
			svc.add(name, addr)
		}
	}
	for name := range elsewhere {
		if _, here := svc.hosts[name]; !here {
			if svc.elsewhere == nil {
				svc.elsewhere = map[string]bool{}
			}
			svc.elsewhere[name] = true
		}
	}
}

// ready yields the endpoints of an entry that are ready.
func ready(entry *topology.Entry) iter.Seq[*topology.Endpoint] {
	return func(yield func(*topology.Endpoint) bool) {
		for _, slice := range entry.Slices {
			for i := range slice.Endpoints {
				if ep := &slice.Endpoints[i]; ep.Ready && !yield(ep) {
					return
				}
			}
		}
	}
}

func (svc *service) add(name string, addr netip.Addr) {
	if svc.hosts == nil {
		svc.hosts = map[string]addresses{}
	}
	a, known := svc.hosts[name]
	switch {
	case !known:
		a.first = addr
	case a.more == nil:
		a.more = &[]netip.Addr{a.first, addr}
	default:
		*a.more = append(*a.more, addr)
	}
	svc.hosts[name] = a
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
	if i, err := strconv.ParseUint(number, 10, 32); !ok || err != nil || strconv.FormatUint(i, 10) != number {
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

// pointer is what PTR says of an address: a Service, or a host below it.
type pointer struct {
	host, service string
	next          *pointer // another name of the same address
}

// point adds or removes the addresses of a Service for PTR.
func (x *Index) point(pointers *table.Edit[netip.Addr, *pointer], name string, svc *service, there bool) {
	if !x.cfg.Services {
		return
	}
	for _, ip := range svc.ips {
		setPointer(pointers, ip, pointer{service: name}, there)
	}
	for _, m := range svc.members {
		setPointer(pointers, m.addr, pointer{host: m.name, service: name}, there)
	}
}

func setPointer(pointers *table.Edit[netip.Addr, *pointer], ip netip.Addr, p pointer, there bool) {
	var list *pointer
	old, _ := pointers.Get(ip)
	for o := old; o != nil; o = o.next {
		if o.host != p.host || o.service != p.service {
			list = &pointer{o.host, o.service, list}
		}
	}
	if there {
		list = &pointer{p.host, p.service, list}
	}
	if list == nil {
		pointers.Delete(ip)
		return
	}
	pointers.Set(ip, list)
}
