package topology

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/internal/table"
)

// evaluation is what the rules may look at besides the Service itself.
type evaluation struct {
	rules []*rule
	opts  Options
	vp    Viewpoint
	inUse []string
	nodes *table.Map[string, *Node]
	dead  []string // nodes, sorted
	// absent are keys in use that no node has, with what may be meant.
	absent map[string]string
	claims *claims
	// targets is mostTargets, or less in tests.
	targets targetBounds
	// explain is told what frontends leave out; nil on the hot path.
	explain func(Frontend, LeftOut)
}

// service evaluates one entry.
func (e *evaluation) service(entry *Entry) *ServiceView {
	s := entry.Service
	view := &ServiceView{Key: s.Key, Service: s, Keys: e.keysOf(entry), ClusterIPs: s.ClusterIPs, Near: RankNone}
	view.Datapath, view.Affinity = e.datapath(s), time.Duration(s.Affinity)*time.Second
	view.Problems = append(view.Problems, s.Problems...)
	for _, slice := range entry.Slices {
		view.Problems = append(view.Problems, slice.Problems...)
	}
	e.keyProblems(view, entry.keys)
	if p := e.claims.portions[s.Key]; p != nil && e.opts.outside() {
		view.besides = p.granted
	}
	i := &inquiry{evaluation: e, view: view, service: s, slices: entry.Slices}
	if e.opts.outside() && s.opensOutside() {
		i.known, i.flows = map[topic]answer{}, map[topic][]netip.AddrPort{}
	}
	i.most = i.bound()
	for _, ip := range s.ClusterIPs {
		if owner, _ := e.claims.whose(s, Frontend{Addr: ip}); owner != s.Key {
			view.problem("spec.clusterIPs",
				fmt.Sprintf("%s belongs to %s already and is not served for this one; give one of them another address", ip, e.claims.holder(s, Frontend{Addr: ip}, owner)))
			view.ClusterIPs = slices.DeleteFunc(slices.Clone(view.ClusterIPs), func(o netip.Addr) bool { return o == ip })
			continue
		}
		i.frontends(ip)
	}
	slices.SortFunc(view.Frontends, func(a, b FrontendView) int { return a.Compare(b.Frontend) })
	if i.known != nil {
		i.outside()
		i.healthCheck()
	}
	i.tellBound()
	i.tellRefused()
	e.names(view, entry)
	return view
}

// keyProblems are the mistakes in the annotation. A key that no node has may
// still come, but so far its tier is empty everywhere.
func (e *evaluation) keyProblems(view *ServiceView, keys Keys) {
	field := "metadata.annotations[" + cmp.Or(view.Service.Misspelt, names.TopologyKeys) + "]"
	if s := view.Service; s.Headless && s.GridKey == "" && (len(view.Keys.List) > 0 || view.Keys.Mode == Malformed) {
		view.problem(field, "does nothing: the Service is headless and of no grid, so the cluster's DNS answers for it, with the pods of all units; make it a ServiceGrid, or give it a ClusterIP")
		return
	}
	switch {
	case keys.Mode == Malformed && view.Keys.Mode == Malformed:
		view.problem(field, keys.Fault+`; the Service is closed to the node itself until it is mended, for example `+meant(view.Service.TopologyKeys))
	case keys.Mode == Malformed:
		view.problem(field, keys.Fault+`; by the reading union the Service is open to everybody until it is mended, for example `+meant(view.Service.TopologyKeys))
	case keys.Fault != "":
		view.problem(field, keys.Fault)
	}
	for _, key := range keys.List {
		if label, absent := e.absent[key]; absent {
			k := &absentKey{key, label}
			view.absent = cmp.Or(view.absent, k)
			view.problem(field, k.String())
		}
	}
}

func (v *ServiceView) problem(field, text string) {
	v.Problems = append(v.Problems, Problem{Object: "service " + v.Key.String(), Field: field, Text: text})
}

// keysOf is the keys of an entry as the reading has them.
func (e *evaluation) keysOf(entry *Entry) Keys {
	keys := entry.keys
	if e.opts.Reading == Union && (keys.Mode == Malformed || keys.Any) {
		return Keys{}
	}
	return keys
}

// frontends adds those of one ClusterIP.
func (i *inquiry) frontends(ip netip.Addr) {
	seen := map[Frontend]bool{}
	for _, port := range i.service.Ports {
		f := Frontend{Addr: ip, Port: port.Port, Protocol: port.Protocol}
		path := i.view.path(port.Protocol)
		if path == PathNone {
			i.view.problem("spec.ports", fmt.Sprintf("%s is refused: %s is not served, only tcp and udp are; use one of them, or run the agent with --datapath auto", f, port.Protocol))
		}
		if seen[f] {
			i.view.problem("spec.ports", fmt.Sprintf("%s occurs twice; the first is served", f))
			continue
		}
		seen[f] = true
		fv := FrontendView{Frontend: f, Path: path, PortName: port.Name}
		a := i.ask(port, ip.Is6(), i.service.InternalLocal)
		if path != PathNone {
			i.tell(f, a)
			fv.Tiers, fv.More, fv.Serving = a.tiers, a.more, i.serving(port, ip.Is6(), path)
			fv.Silent = i.service.InternalLocal && a.usable
			i.view.Near = min(i.view.Near, a.near)
		}
		i.view.Frontends = append(i.view.Frontends, fv)
	}
}

// near is the rank of the nearest endpoint. Any node is not near.
func (q *question) near(tiers []tier) Rank {
	switch {
	case len(tiers) == 0:
		return RankNone
	case q.keys.Mode != NoKeys && tiers[0].key == AnyNode:
		return RankNone
	case q.keys.Mode != NoKeys:
		return tiers[0].rank
	}
	for _, t := range tiers {
		for _, c := range t.list {
			// Not the keys in use: one Service names 16, and this node has few of all.
			for key := range q.vp.Values {
				if q.shares(key, c.Node) {
					return RankShared
				}
			}
		}
	}
	return RankNone
}

// targets is the tiers as the view has them, sorted by address.
func targets(tiers []tier) []Tier {
	if len(tiers) == 0 {
		return nil
	}
	out := make([]Tier, len(tiers))
	for i, t := range tiers {
		out[i] = Tier{Key: t.key, Terminating: !t.list[0].Ready, Endpoints: make([]Target, len(t.list))}
		for j, c := range t.list {
			out[i].Endpoints[j] = Target{Addr: c.target(), Node: c.Node, Dead: c.dead}
		}
		slices.SortFunc(out[i].Endpoints, func(a, b Target) int { return a.Addr.Compare(b.Addr) })
	}
	return out
}
