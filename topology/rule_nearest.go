package topology

// nearestTier keeps the first tier: DNS gives no second choice, and a client
// takes any of the addresses. The proxy falls to later tiers by itself.
var nearestTier = &rule{
	name:   "nearest tier",
	reason: "an earlier tier has ready endpoints",
	only:   forNames,
	arrange: func(q *question, tiers []tier) []tier {
		for i := 1; i < len(tiers); i++ {
			for _, c := range tiers[i].list {
				q.leaveOut(c)
			}
		}
		return tiers[:min(1, len(tiers))]
	},
}
