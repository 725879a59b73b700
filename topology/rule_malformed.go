package topology

// malformedKeys closes a Service with a mistake in its topologyKeys to the node
// itself: a typo never opens a Service.
var malformedKeys = &rule{
	name:   "malformed keys",
	reason: "not on this node (topologyKeys is malformed: closed to the node itself)",
	cure:   "mend the annotation topologyKeys: until then the Service is closed to each node itself",
	when:   func(q *question) bool { return q.keys.Mode == Malformed },
	arrange: func(q *question, tiers []tier) []tier {
		for i := range tiers {
			tiers[i] = tier{key: "(this node)", rank: RankFirst, list: q.filter(tiers[i].list, onThisNode)}
		}
		return tiers
	},
}
