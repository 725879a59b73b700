package topology

import (
	"fmt"
	"slices"
	"strings"
)

// keyTiers puts each endpoint into the tier of the first key whose value its
// node shares with this node (KEP-536). Without "*" the others are left out.
var keyTiers = &rule{
	name:    "topologyKeys",
	reason:  "not in this node's unit",
	cure:    `run a pod of it in this node's unit, or correct the nodes' labels; if other units are to answer at all, end topologyKeys with "` + AnyNode + `": then units no longer keep to themselves whenever their own pods are away`,
	when:    func(q *question) bool { return q.keys.Mode == OrderedKeys },
	arrange: byKey,
	detail:  func(q *question, c candidate) string { reason, _ := mismatch(q, c); return reason },
	help:    func(q *question, c candidate) string { _, cure := mismatch(q, c); return cure },
}

func byKey(q *question, before []tier) []tier {
	keys := q.keys.List
	tiers := make([]tier, len(keys)+1)
	for i, key := range keys {
		tiers[i] = tier{key: key, rank: RankTier(i)}
	}
	tiers[len(keys)] = tier{key: AnyNode, rank: RankTier(len(keys))}
	for _, t := range before {
		for _, c := range t.list {
			rank := q.rank(q.keys, c.Node)
			if rank == RankNone {
				q.leaveOut(c)
				continue
			}
			to := &tiers[rank-RankFirst].list
			if *to == nil {
				*to = make([]candidate, 0, len(t.list))
			}
			*to = append(*to, c)
		}
	}
	if q.opts.Reading == Union {
		return []tier{union(q.keys, tiers)}
	}
	return tiers
}

func union(keys Keys, tiers []tier) tier {
	one := tier{key: keys.String(), rank: RankFirst}
	for _, t := range tiers {
		one.list = append(one.list, t.list...)
	}
	return one
}

// mismatch says why an endpoint is in no tier, by each key, and what helps by the first,
// where that is no pod: a node that is in no unit has no use for one. "" where it is.
func mismatch(q *question, c candidate) (reason, cure string) {
	n, _ := q.nodes.Get(c.Node)
	switch {
	case c.Node == "":
		return "has no nodeName, so it is in no unit", "give the endpoint the nodeName of the node that it is on"
	case n == nil:
		return fmt.Sprintf("its node %s is not known", c.Node), "see whether there is such a node: kubectl get node " + c.Node
	}
	reasons := make([]string, len(q.keys.List))
	for i, key := range q.keys.List {
		why, help := differs(q, n, key)
		if reasons[i] = why; i == 0 {
			cure = help
		}
	}
	return strings.Join(reasons, "; "), cure
}

// differs says why a node is not in this node's unit of a key, and what helps, as above.
func differs(q *question, n *Node, key string) (reason, cure string) {
	const label = "kubectl label node %s %s=UNIT"
	mine, labelled := q.label(q.vp.Name, key)
	theirs, ok := n.Labels[key]
	here := fmt.Sprintf("say which unit this node is in: "+label, q.vp.Name, key)
	there := fmt.Sprintf("say which unit that node is in: "+label, n.Name, key)
	switch {
	case !labelled:
		return fmt.Sprintf("this node has no label %s", key), here
	case mine == "":
		return fmt.Sprintf("this node's label %s is empty, so it is in no unit", key), here
	case !ok:
		return fmt.Sprintf("its node %s has no label %s", n.Name, key), there
	case theirs == "":
		return fmt.Sprintf("the label %s of its node %s is empty, so it is in no unit", key, n.Name), there
	}
	return fmt.Sprintf("other unit: %s=%s, here %s", key, theirs, mine), ""
}

// rank is the rank of a node by ordered keys, AnyNode after the last.
func (e *evaluation) rank(keys Keys, node string) Rank {
	i := slices.IndexFunc(keys.List, func(key string) bool { return e.shares(key, node) })
	switch {
	case i >= 0:
		return RankTier(i)
	case keys.Any:
		return RankTier(len(keys.List))
	}
	return RankNone
}

// shares reports whether a node is in this node's unit of a key.
func (e *evaluation) shares(key, node string) bool {
	mine := e.vp.Values[key]
	return mine != "" && mine == e.unit(node, key)
}

// unit is the unit of a key that a node of the snapshot is in; "" for none.
func (e *evaluation) unit(node, key string) string {
	value, _ := e.label(node, key)
	return value
}

// label is a label of a node of the snapshot.
func (e *evaluation) label(node, key string) (value string, ok bool) {
	n, _ := e.nodes.Get(node)
	if n == nil {
		return "", false
	}
	value, ok = n.Labels[key]
	return value, ok
}
