package topology_test

import (
	"cmp"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/gridmesh/gridmesh/topology"
)

// claim is a frontend besides ClusterIPs that a Service asks for.
type claim struct {
	Frontend
	kind OutsideKind
	name string // of the port
}

// claims are all of a Service's, as often as it asks.
func claims(s *Service) (list []claim) {
	for _, ip := range s.ClusterIPs {
		for _, p := range s.Ports {
			ask := func(addr netip.Addr, port uint16, kind OutsideKind) {
				if addr.Is6() == ip.Is6() {
					list = append(list, claim{Frontend{Addr: addr, Port: port, Protocol: p.Protocol}, kind, p.Name})
				}
			}
			if p.NodePort != 0 {
				ask(netip.IPv4Unspecified(), p.NodePort, NodePort)
				ask(netip.IPv6Unspecified(), p.NodePort, NodePort)
			}
			if s.Exposure == nil {
				continue
			}
			for _, addr := range s.Exposure.LoadBalancers {
				ask(addr, p.Port, LoadBalancer)
			}
			for _, addr := range s.Exposure.ExternalIPs {
				ask(addr, p.Port, ExternalIP)
			}
		}
	}
	return list
}

// claimed is what every Service of a snapshot asks for and may have: the first so
// many of each, and of a namespace what the eldest ask for.
func claimed(snap *Snapshot, viewer *Viewer) map[*Service][]claim {
	all := map[*Service][]claim{}
	var byAge []*Service
	for _, e := range snap.Services.All() {
		if e.Service != nil {
			byAge = append(byAge, e.Service)
		}
	}
	slices.SortFunc(byAge, byElder)
	ofService, ofNamespace := viewer.Bounds()
	had := map[string]int{}
	for _, s := range byAge {
		list := claims(s)
		list = list[:min(len(list), ofService)]
		list = list[:min(len(list), ofNamespace-had[s.Key.Namespace])]
		had[s.Key.Namespace] += len(list)
		all[s] = list
	}
	return all
}

// unguarded are the pairs that are a Service's own, and whose ranges find no room: of all
// namespaces that which has least with its next list is next, and what does not fit is left out.
func unguarded(all map[*Service][]claim, viewer *Viewer) map[*Service]map[Frontend]bool {
	type pairs struct {
		of   *Service
		to   []Frontend // of one family
		cost int
	}
	wants, had, lack, left := map[string][]pairs{}, map[string]int{}, map[*Service]map[Frontend]bool{}, viewer.RangeBound()
	for _, s := range slices.SortedFunc(maps.Keys(all), byElder) {
		lack[s] = map[Frontend]bool{}
		for _, ip := range s.ClusterIPs {
			p := pairs{of: s}
			for _, c := range all[s] {
				if n := entries(s, c); n > 0 && c.Addr.Is6() == ip.Is6() && granted(all, s, c) {
					p.to, p.cost = append(p.to, c.Frontend), n
				}
			}
			if len(p.to) > 0 {
				wants[s.Key.Namespace] = append(wants[s.Key.Namespace], p)
			}
		}
	}
	for {
		var next *pairs
		for namespace, list := range wants {
			for len(list) > 0 && list[0].cost > left {
				for _, to := range list[0].to {
					lack[list[0].of][to] = true
				}
				list = list[1:]
			}
			wants[namespace] = list
			if len(list) == 0 {
				continue
			}
			if p := &list[0]; next == nil ||
				cmp.Or(had[namespace]+p.cost-had[next.of.Key.Namespace]-next.cost, byElder(p.of, next.of)) < 0 {
				next = p
			}
		}
		if next == nil {
			return lack
		}
		namespace := next.of.Key.Namespace
		had[namespace] += next.cost
		left -= next.cost
		wants[namespace] = wants[namespace][1:]
	}
}

// entries are what the list takes of a node that a claim needs.
func entries(s *Service, c claim) (n int) {
	if s.Exposure == nil || c.kind != LoadBalancer {
		return 0
	}
	for _, p := range s.Exposure.Sources {
		if p.Addr().Is6() == c.Addr.Is6() {
			n++
		}
	}
	return n + OfList*min(n, 1)
}

func byElder(a, b *Service) int {
	switch {
	case a == b:
		return 0
	case elder(a, b):
		return -1
	}
	return 1
}

func elder(a, b *Service) bool {
	if (a.Created == 0) != (b.Created == 0) { // of unknown age: the younger
		return b.Created == 0
	}
	return a.Created < b.Created || a.Created == b.Created && a.Key.Compare(b.Key) < 0
}

// granted reports whether nobody has a better right to a claim: ClusterIPs come
// first, then node ports and addresses that load balancers gave, then external
// addresses; and of equal claims the eldest's, and in one Service the first.
func granted(all map[*Service][]claim, s *Service, w claim) bool {
	for other, list := range all {
		if slices.Contains(other.ClusterIPs, w.Addr) {
			return false
		}
		for _, o := range list {
			if o.Frontend == w.Frontend && (o.kind < w.kind || o.kind == w.kind && elder(other, s)) {
				return false
			}
		}
	}
	i := slices.IndexFunc(all[s], func(o claim) bool { return o.Frontend == w.Frontend && o.kind == w.kind })
	return all[s][i].name == w.name
}

// checkOutside compares what a Service offers besides ClusterIPs with what it
// asks for, one by one.
func checkOutside(t *testing.T, all map[*Service][]claim, lack map[Frontend]bool, snap *Snapshot, entry *Entry, sv *ServiceView, opts Options, at string) {
	t.Helper()
	s := entry.Service
	if want := time.Duration(s.Affinity) * time.Second; sv.Affinity != want {
		t.Fatalf("%s: %s: affinity %s, want %s", at, sv.Key, sv.Affinity, want)
	}
	want := map[Frontend]claim{}
	if said := slices.ContainsFunc(sv.Problems, func(p Problem) bool { return p.Field == "spec.loadBalancerSourceRanges" }); said != (len(lack) > 0 && (opts.Outside || opts.Datapath != DatapathNone)) {
		t.Fatalf("%s: %s lacks room for ranges of %v, said: %v", at, sv.Key, lack, said)
	}
	for _, w := range all[s] {
		if (opts.Outside || opts.Datapath != DatapathNone) && granted(all, s, w) && !lack[w.Frontend] {
			want[w.Frontend] = w
		}
	}
	if !slices.IsSortedFunc(sv.Outside, func(a, b Outside) int { return a.Compare(b.Frontend) }) || len(sv.Outside) != len(want) {
		t.Fatalf("%s: %s: %v, the twin says %v", at, sv.Key, sv.Outside, want)
	}
	more := (opts.Outside || opts.Datapath != DatapathNone) && len(all[s]) < len(claims(s))
	said := slices.ContainsFunc(sv.Problems, func(p Problem) bool { return strings.Contains(p.Text, "pairs of a port and an address besides") })
	if more != said {
		t.Fatalf("%s: %s has %d of %d, said: %v", at, sv.Key, len(all[s]), len(claims(s)), said)
	}
	x, path := s.Exposure, PathKernel
	if x == nil {
		x = &Exposure{}
	}
	if opts.Datapath == DatapathNone {
		path = PathNone
	}
	for _, o := range sv.Outside {
		w, granted := want[o.Frontend]
		as := FrontendView{Frontend: o.Frontend, PortName: w.name}
		near, local, sources := twin(snap, entry, as, false, opts), map[string]string{}, []netip.Prefix(nil)
		if x.Local {
			local = twin(snap, entry, as, true, opts)
		}
		for _, p := range x.Sources {
			if p.Addr().Is6() == o.Addr.Is6() && w.kind == LoadBalancer {
				sources = append(sources, p)
			}
		}
		silent := x.Local && len(local) == 0 && len(near) > 0
		if !granted || o.Path != path || o.Kind != w.kind || o.PortName != w.name || o.Local != x.Local || o.Silent != silent || !slices.Equal(o.Sources, sources) {
			t.Fatalf("%s: %s: %+v, the twin says %+v of %+v", at, sv.Key, o, w, x)
		}
		if got := levels(o.Tiers); !reflect.DeepEqual(got, near) {
			t.Fatalf("%s: %s %s: %v, the twin says %v", at, sv.Key, o.Frontend, got, near)
		}
		if got := levels(o.LocalTiers); !reflect.DeepEqual(got, local) {
			t.Fatalf("%s: %s %s from outside: %v, the twin says %v", at, sv.Key, o.Frontend, got, local)
		}
	}
	checkHealth(t, snap, entry, sv, opts, at)
}

// checkHealth asks each endpoint of this node whether it is ready and reached.
func checkHealth(t *testing.T, snap *Snapshot, entry *Entry, sv *ServiceView, opts Options, at string) {
	t.Helper()
	s, port := entry.Service, uint16(0)
	if (opts.Outside || opts.Datapath != DatapathNone) && s.Exposure != nil {
		port = s.Exposure.HealthCheckNodePort
	}
	if port == 0 {
		if sv.HealthCheck != nil {
			t.Fatalf("%s: %s: %+v", at, sv.Key, sv.HealthCheck)
		}
		return
	}
	ready := map[netip.Addr]bool{}
	for _, ip := range s.ClusterIPs {
		for _, slice := range entry.Slices {
			for _, p := range slice.Ports {
				as := FrontendView{Frontend: Frontend{Addr: ip, Protocol: p.Protocol}, PortName: p.Name}
				reached := twin(snap, entry, as, true, opts)
				for _, e := range ends(entry, as) {
					if _, is := reached[e.to]; is && e.Ready && e.Node == "n0" && !standsFor(entry, as, e, sv.Keys.Mode == NoKeys) {
						ready[e.Addr] = true
					}
				}
			}
		}
	}
	want := HealthCheck{Port: port}
	for addr := range ready {
		if addr.Is6() {
			want.IPv6++
		} else {
			want.IPv4++
		}
	}
	if sv.HealthCheck == nil || *sv.HealthCheck != want {
		t.Fatalf("%s: %s: %+v, the twin says %+v", at, sv.Key, sv.HealthCheck, want)
	}
}

// standsFor reports whether another endpoint of this node, or of any, has e's
// address and is meant by it: e terminates, and the other does not.
func standsFor(entry *Entry, f FrontendView, e end, anywhere bool) bool {
	return e.Terminating && slices.ContainsFunc(ends(entry, f), func(o end) bool {
		return o.to == e.to && (anywhere || o.Node == e.Node) && !o.Terminating
	})
}
