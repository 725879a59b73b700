package topology

import "net/netip"

// duplicatesAnywhere is duplicates without keys: as in kube-proxy it is the
// cluster that knows one endpoint by an address, before anybody asks on which node.
// One that ends here does not answer for a pod that has its address elsewhere; one
// that runs here does, for units may have the same address ranges.
var duplicatesAnywhere = &rule{
	name:    "duplicates anywhere",
	reason:  duplicates.reason,
	only:    forTraffic,
	when:    func(q *question) bool { return q.keys.Mode == NoKeys },
	arrange: duplicates.arrange,
}

// duplicates keeps one endpoint of each address and port in a tier. There are
// several while endpoints are moved between slices, and where units have the
// same address ranges: which one an address means is known only after the keys
// have put them into tiers. beats says which one wins.
var duplicates = &rule{
	name:   "duplicates",
	reason: "another endpoint has the same address and port",
	only:   forTraffic,
	when:   func(q *question) bool { return q.keys.Mode != NoKeys },
	arrange: func(q *question, tiers []tier) []tier {
		for i := range tiers {
			tiers[i].list = q.unique(tiers[i].list)
		}
		return tiers
	},
}

func (q *question) unique(list []candidate) []candidate {
	at, kept := make(map[netip.AddrPort]int, len(list)), list[:0]
	for _, c := range list {
		k, dup := at[c.target()]
		switch {
		case !dup:
			at[c.target()] = len(kept)
			kept = append(kept, c)
		case q.beats(c, kept[k]):
			q.leaveOut(kept[k])
			kept[k] = c
		default:
			q.leaveOut(c)
		}
	}
	return kept
}

// beats reports whether c is preferred to another endpoint of its address. As in
// kube-proxy one that does not terminate wins, for its pod has the address now;
// then one of this node, ready or not: dialled from here, the address leads to it.
// Then one that is ready, one that serves, and by the node's name, for the order of
// slices and endpoints means nothing.
func (q *question) beats(c, o candidate) bool {
	mine := func(c candidate) bool { return c.Node != "" && c.Node == q.vp.Name }
	switch {
	case c.Terminating != o.Terminating:
		return !c.Terminating
	case mine(c) != mine(o):
		return mine(c)
	case c.Ready != o.Ready:
		return c.Ready
	case c.Serving != o.Serving:
		return c.Serving
	}
	return c.Node != "" && (o.Node == "" || c.Node < o.Node)
}

// nearerToo leaves out of later tiers what an earlier one has: dialled from
// here, an address is the nearer one's.
var nearerToo = &rule{
	name:   "nearer too",
	reason: "an earlier tier has the same address and port",
	only:   forTraffic,
	arrange: func(q *question, tiers []tier) []tier {
		if len(tiers) < 2 {
			return tiers
		}
		nearer := map[netip.AddrPort]bool{}
		for i := range tiers {
			tiers[i].list = q.filter(tiers[i].list, func(_ *question, c candidate) bool { return !nearer[c.target()] })
			for _, c := range tiers[i].list {
				nearer[c.target()] = true
			}
		}
		return tiers
	},
}
