package topology

import (
	"fmt"
	"net/netip"
	"slices"
)

// LeftOut is an endpoint that no tier holds, and why.
type LeftOut struct {
	Addr   netip.AddrPort
	Node   string
	Reason string
}

// question is one frontend's endpoints on their way through the rules.
type question struct {
	see       *evaluation
	keys      Keys
	local     bool
	endpoints []candidate
	// leave is nil on the hot path; the lens sets it to learn the reasons.
	leave func(c candidate, reason string)
}

type candidate struct {
	*Endpoint
	addr netip.AddrPort
}

func (q *question) drop(c candidate, format string, args ...any) {
	if q.leave != nil {
		q.leave(c, fmt.Sprintf(format, args...))
	}
}

// keep filters in place by a rule that returns "" for what stays, else the reason.
func (q *question) keep(list []candidate, rule func(c candidate) string) []candidate {
	kept := make([]candidate, 0, len(list))
	for _, c := range list {
		if reason := rule(c); reason != "" {
			q.drop(c, "%s", reason)
			continue
		}
		kept = append(kept, c)
	}
	return kept
}

// tiers applies the rules in their order (docs/topology.md).
func (q *question) tiers() []Tier {
	list := q.endpoints
	if q.local {
		list = q.keep(list, q.onThisNode)
	}
	switch q.keys.Mode {
	case Malformed:
		own := q.settle(q.keep(list, q.onThisNode))
		return appendTier(nil, "(this node)", own)
	case OrderedKeys:
		return q.keyed(list)
	}
	return appendTier(nil, "", q.plain(list))
}

func (q *question) onThisNode(c candidate) string {
	if c.Node == q.see.vp.Name {
		return ""
	}
	if q.keys.Mode == Malformed {
		return "not on this node (topologyKeys is malformed: closed to the node itself)"
	}
	return "not on this node (internalTrafficPolicy: Local)"
}

// keyed puts each endpoint into the tier of the first key it matches.
func (q *question) keyed(list []candidate) []Tier {
	keys := q.keys.List
	byKey := make([][]candidate, len(keys)+1)
	for _, c := range list {
		if i := q.see.tier(q.keys, c.Node); i >= 0 {
			byKey[i] = append(byKey[i], c)
		} else {
			q.drop(c, "%s", q.see.mismatch(keys, c.Node))
		}
	}
	if q.see.opts.Union {
		all := slices.Concat(byKey...)
		return appendTier(nil, q.keys.String(), q.settle(all))
	}
	var tiers []Tier
	for i, members := range byKey {
		key := AnyNode
		if i < len(keys) {
			key = keys[i]
		}
		tiers = appendTier(tiers, key, q.settle(members))
	}
	return tiers
}

// settle is the terminating rule inside one tier: the ready ones, or, where
// none is ready, those that still serve while they terminate (KEP-1669).
func (q *question) settle(list []candidate) []candidate {
	ready := slices.ContainsFunc(list, func(c candidate) bool { return c.Ready })
	return q.keep(list, func(c candidate) string { return unsettled(c, ready) })
}

func unsettled(c candidate, anyReady bool) string {
	switch {
	case c.Ready:
		return ""
	case !c.Serving || !c.Terminating:
		return "not ready"
	case anyReady:
		return "terminating, and ready ones exist"
	}
	return ""
}

// plain is kube-proxy's choice for Services without keys: hints, then ready,
// then anything that still serves while it terminates (CategorizeEndpoints of
// Kubernetes 1.36).
func (q *question) plain(list []candidate) []candidate {
	if q.local {
		return q.settle(list)
	}
	if hinted := q.hintMode(list); hinted != nil {
		return q.keep(list, func(c candidate) string {
			if reason := unsettled(c, true); reason != "" {
				return reason
			}
			if !hinted(c) {
				return "hinted to another zone or node"
			}
			return ""
		})
	}
	return q.settle(list)
}

// hintMode returns the filter that the hints of the ready endpoints ask for:
// this node's if every one has node hints and one names it, else this zone's
// likewise, else none (KEP-2433, KEP-3015). Where it returns a filter, at least
// one ready endpoint passes it.
func (q *question) hintMode(list []candidate) func(candidate) bool {
	node := func(c candidate) bool { return slices.Contains(c.HintNodes, q.see.vp.Name) }
	zone := func(c candidate) bool { return slices.Contains(c.HintZones, q.see.vp.Zone) }
	allNode, allZone, anyNode, anyZone := true, q.see.vp.Zone != "", false, false
	for _, c := range list {
		if !c.Ready {
			continue
		}
		allNode = allNode && len(c.HintNodes) > 0
		allZone = allZone && len(c.HintZones) > 0
		anyNode = anyNode || node(c)
		anyZone = anyZone || zone(c)
	}
	switch {
	case allNode && anyNode:
		return node
	case allZone && anyZone:
		return zone
	}
	return nil
}

func appendTier(tiers []Tier, key string, members []candidate) []Tier {
	if len(members) == 0 {
		return tiers
	}
	t := Tier{Key: key, Endpoints: make([]Target, len(members))}
	for i, c := range members {
		t.Endpoints[i] = Target{Addr: c.addr, Node: c.Node}
	}
	slices.SortFunc(t.Endpoints, func(a, b Target) int { return a.Addr.Compare(b.Addr) })
	return append(tiers, t)
}
