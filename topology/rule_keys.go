package topology

import (
	"fmt"
	"slices"
)

// keyTiers puts each endpoint into the tier of the first key whose value its
// node shares with this node (KEP-536). Without "*" the others are left out.
var keyTiers = &rule{
	name:    "topologyKeys",
	reason:  "not in this node's unit",
	cure:    `run a pod of it in this node's unit, or correct the nodes' labels; if other units are to answer at all, end topologyKeys with "` + AnyNode + `": then units no longer keep to themselves whenever their own pods are away`,
	when:    func(q *question) bool { return q.keys.Mode == OrderedKeys },
	arrange: byKey,
	detail:  mismatch,
	help:    labels,
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

// mismatch says why an endpoint is in no tier, by the first key.
func mismatch(q *question, c candidate) string {
	n, _ := q.nodes.Get(c.Node)
	switch {
	case c.Node == "":
		return "has no nodeName, so it is in no unit"
	case n == nil:
		return fmt.Sprintf("its node %s is not known", c.Node)
	}
	key := q.keys.List[0]
	mine, labelled := q.label(q.vp.Name, key)
	theirs, ok := n.Labels[key]
	switch {
	case !labelled:
		return fmt.Sprintf("this node has no label %s", key)
	case mine == "":
		return fmt.Sprintf("this node's label %s is empty, so it is in no unit", key)
	case !ok:
		return fmt.Sprintf("its node %s has no label %s", c.Node, key)
	case theirs == "":
		return fmt.Sprintf("the label %s of its node %s is empty, so it is in no unit", key, c.Node)
	}
	return fmt.Sprintf("other unit: %s=%s, here %s", key, theirs, mine)
}

// labels is the cure where it is a label that lacks, by the first key: no pod helps
// a node that is in no unit.
func labels(q *question, c candidate) string {
	key := q.keys.List[0]
	n, _ := q.nodes.Get(c.Node)
	switch {
	case c.Node == "":
		return "give the endpoint the nodeName of the node that it is on"
	case n == nil:
		return "see whether there is such a node: kubectl get node " + c.Node
	case q.vp.Values[key] == "":
		return fmt.Sprintf("say which unit this node is in: kubectl label node %s %s=UNIT", q.vp.Name, key)
	case n.Labels[key] == "":
		return fmt.Sprintf("say which unit that node is in: kubectl label node %s %s=UNIT", c.Node, key)
	}
	return ""
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
