package topology

// localPolicy is internalTrafficPolicy: Local. It narrows to this node, keys or
// not (KEP-2086).
var localPolicy = &rule{
	name:   "internalTrafficPolicy",
	reason: "not on this node (internalTrafficPolicy: Local)",
	cure:   "run a pod of it on this node, or set spec.internalTrafficPolicy: Cluster",
	only:   forTraffic,
	when:   func(q *question) bool { return q.local },
	keep:   onThisNode,
}
