package topology

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/gridmesh/gridmesh/internal/table"
)

// evaluation is what the rules may look at besides the Service itself.
type evaluation struct {
	opts  Options
	vp    Viewpoint
	inUse []string
	nodes *table.Map[string, *Node]
	// ownerOf names the Service that a ClusterIP belongs to.
	ownerOf func(netip.Addr) ObjectKey
}

// match returns the index of the first key whose value this node and the
// endpoint's node share, or -1.
func (e *evaluation) match(keys []string, node string) int {
	n, _ := e.nodes.Get(node)
	if n == nil {
		return -1
	}
	for i, key := range keys {
		mine, labelled := e.vp.Values[key]
		if theirs, ok := n.Labels[key]; labelled && ok && mine == theirs {
			return i
		}
	}
	return -1
}

// mismatch says why match found nothing, by the first key.
func (e *evaluation) mismatch(keys []string, node string) string {
	n, _ := e.nodes.Get(node)
	switch {
	case node == "":
		return "has no nodeName, so it is in no unit"
	case n == nil:
		return fmt.Sprintf("its node %s is not known", node)
	}
	key := keys[0]
	mine, labelled := e.vp.Values[key]
	theirs, ok := n.Labels[key]
	switch {
	case !labelled:
		return fmt.Sprintf("this node has no label %s", key)
	case !ok:
		return fmt.Sprintf("its node %s has no label %s", node, key)
	}
	return fmt.Sprintf("other unit: %s=%s, here %s", key, theirs, mine)
}

// service evaluates one entry. leave may be nil.
func (e *evaluation) service(entry *Entry, leave func(Frontend, LeftOut)) *ServiceView {
	s := entry.Service
	view := &ServiceView{Key: s.Key, Keys: e.keysOf(entry), Near: NearNone}
	view.Problems = append(view.Problems, s.Problems...)
	for _, slice := range entry.Slices {
		view.Problems = append(view.Problems, slice.Problems...)
	}
	if view.Keys.Mode == Malformed {
		view.problem("metadata.annotations[topologyKeys]",
			view.Keys.Fault+`; the Service is closed to the node itself until it is mended, for example '["site"]'`)
	}
	for _, ip := range s.ClusterIPs {
		if owner := e.ownerOf(ip); owner != s.Key {
			view.problem("spec.clusterIPs",
				fmt.Sprintf("%s belongs to service %s already and is not served for this one; give one of them another address", ip, owner))
			continue
		}
		e.frontends(view, entry, ip, leave)
	}
	slices.SortFunc(view.Frontends, func(a, b FrontendView) int { return a.Compare(b.Frontend) })
	if s.Headless {
		view.Members = e.members(view.Keys, entry.Slices)
	}
	return view
}

// members chooses the endpoints behind a headless name, both families as one:
// what a unit lacks in one family it does not get from elsewhere. Readiness
// alone counts, as the DNS specification has it.
func (e *evaluation) members(keys Keys, list []*Slice) []Member {
	var best []Member
	at := len(keys.List) + 1 // of the tier that best is in
	seen := map[netip.Addr]bool{}
	for _, slice := range list {
		for i := range slice.Endpoints {
			ep := &slice.Endpoints[i]
			tier := e.memberTier(keys, ep.Node)
			if !ep.Ready || tier < 0 || tier > at {
				continue
			}
			if tier < at {
				best, at = nil, tier
				clear(seen)
			}
			if seen[ep.Addr] {
				continue
			}
			seen[ep.Addr] = true
			best = append(best, Member{Addr: ep.Addr, Node: ep.Node, Hostname: ep.Hostname, Ports: slice.Ports})
		}
	}
	slices.SortFunc(best, func(a, b Member) int { return a.Addr.Compare(b.Addr) })
	return best
}

// memberTier is the tier of an endpoint behind a headless name, or -1.
func (e *evaluation) memberTier(keys Keys, node string) int {
	switch keys.Mode {
	case Malformed:
		if node != e.vp.Name {
			return -1
		}
		return 0
	case OrderedKeys:
		if i := e.tier(keys, node); i <= 0 || !e.opts.Union {
			return i
		}
	}
	return 0
}

// tier is the place of an endpoint's node among ordered keys, AnyNode after
// the last, or -1.
func (e *evaluation) tier(keys Keys, node string) int {
	i := e.match(keys.List, node)
	if i < 0 && keys.Any {
		return len(keys.List)
	}
	return i
}

func (v *ServiceView) problem(field, text string) {
	v.Problems = append(v.Problems, Problem{Object: "service " + v.Key.String(), Field: field, Text: text})
}

func (e *evaluation) keysOf(entry *Entry) Keys {
	keys := entry.keys
	if e.opts.Union && (keys.Mode == Malformed || keys.Any) {
		return Keys{}
	}
	return keys
}

func (e *evaluation) frontends(view *ServiceView, entry *Entry, ip netip.Addr, leave func(Frontend, LeftOut)) {
	for _, port := range entry.Service.Ports {
		f := Frontend{Addr: ip, Port: port.Port, Protocol: port.Protocol}
		if port.Protocol != TCP && port.Protocol != UDP {
			view.problem("spec.ports", fmt.Sprintf("%s is refused: %s is not served, only tcp and udp are", f, port.Protocol))
		}
		if slices.ContainsFunc(view.Frontends, func(o FrontendView) bool { return o.Frontend == f }) {
			view.problem("spec.ports", fmt.Sprintf("%s occurs twice; the first is served", f))
			continue
		}
		q := &question{
			see: e, keys: view.Keys, local: entry.Service.InternalLocal,
		}
		if leave != nil {
			q.leave = func(c candidate, reason string) {
				leave(f, LeftOut{Addr: c.addr, Node: c.Node, Reason: reason})
			}
		}
		q.endpoints = gather(q, entry.Slices, port, ip.Is6())
		fv := FrontendView{Frontend: f, PortName: port.Name}
		if port.Protocol == TCP || port.Protocol == UDP {
			fv.Tiers = q.tiers()
		}
		fv.Silent = q.local && len(fv.Tiers) == 0 && len(q.endpoints) > 0
		view.Near = min(view.Near, e.rank(view.Keys, fv.Tiers))
		view.Frontends = append(view.Frontends, fv)
	}
}

// gather collects the endpoints of one port and family. Of two entries with
// the same address and port the one that does not terminate wins.
func gather(q *question, list []*Slice, port ServicePort, ipv6 bool) []candidate {
	var found []candidate
	var at map[netip.AddrPort]int
	for _, slice := range list {
		if slice.IPv6 != ipv6 {
			continue
		}
		i := slices.IndexFunc(slice.Ports, func(p SlicePort) bool { return p.Name == port.Name && p.Protocol == port.Protocol })
		if i < 0 {
			continue
		}
		if at == nil {
			at = make(map[netip.AddrPort]int, len(slice.Endpoints))
			found = make([]candidate, 0, len(slice.Endpoints))
		}
		for j := range slice.Endpoints {
			c := candidate{&slice.Endpoints[j], netip.AddrPortFrom(slice.Endpoints[j].Addr, slice.Ports[i].Port)}
			k, dup := at[c.addr]
			switch {
			case !dup:
				at[c.addr] = len(found)
				found = append(found, c)
			case found[k].Terminating && !c.Terminating:
				q.drop(found[k], "the same endpoint is in another slice too, not terminating")
				found[k] = c
			default:
				q.drop(c, "the same endpoint is in another slice too")
			}
		}
	}
	return found
}

// rank is how near the nearest endpoint is.
func (e *evaluation) rank(keys Keys, tiers []Tier) Rank {
	if keys.Mode == Malformed && len(tiers) > 0 {
		return 0
	}
	if keys.Mode == OrderedKeys {
		for _, t := range tiers {
			if i := slices.Index(keys.List, t.Key); i >= 0 {
				return Rank(i)
			}
			if e.opts.Union {
				return 0
			}
		}
		return NearNone
	}
	for _, t := range tiers {
		for _, ep := range t.Endpoints {
			if e.match(e.inUse, ep.Node) >= 0 {
				return NearShared
			}
		}
	}
	return NearNone
}
