package topology

import "net/netip"

// LeftOut is an endpoint that no tier holds, and why.
type LeftOut struct {
	Addr   netip.AddrPort
	Node   string
	Rule   string // its name, as "topologyKeys"
	Reason string
	Cure   string // in it NAMESPACE is the Service's and ADDRESS the endpoint's; "" of a rule that always leaves one
}

// Explain evaluates one Service of s again and returns, for each of its
// frontends, of its ClusterIPs and besides, the endpoints that were left out and
// why. For people, not for the hot path.
func Explain(s *Snapshot, view *View, opts Options, key ObjectKey) map[Frontend][]LeftOut {
	entry, _ := s.Services.Get(key)
	if entry == nil || entry.Service == nil {
		return nil
	}
	reasons := map[Frontend][]LeftOut{}
	only := newClaims(opts)
	only.change(nil, entry.Service)
	only.settle(set{})
	if sv, ok := view.Service(key); ok && only.portions[key] != nil { // others of its namespace have theirs
		only.portions[key].granted = sv.besides
	}
	eval := &evaluation{
		rules: rules, opts: opts, vp: view.Viewpoint, inUse: view.KeysInUse, nodes: s.Nodes, dead: s.Dead,
		claims:  only,
		targets: mostTargets,
		explain: func(f Frontend, l LeftOut) { reasons[f] = append(reasons[f], l) },
	}
	eval.service(entry)
	return reasons
}
