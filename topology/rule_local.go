package topology

// localPolicy is internalTrafficPolicy: Local. It narrows to this node, keys or
// not (KEP-2086).
var localPolicy = &rule{
	name:   "internalTrafficPolicy",
	reason: "not on this node (internalTrafficPolicy: Local)",
	only:   forTraffic,
	when:   func(q *question) bool { return q.local },
	keep:   onThisNode,
}
