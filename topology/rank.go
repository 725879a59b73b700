package topology

// Rank is an order of nearness; lower is nearer. It orders the tiers of a
// Service, and Services among each other by what a node needs first.
type Rank uint8

const (
	// RankAlways is before every tier: what each node needs, wherever it is. No
	// rule gives it; renderers do.
	RankAlways Rank = iota
	// RankFirst is the first tier; RankTier returns the others.
	RankFirst
	// RankShared is a Service without keys that has an endpoint on a node which
	// shares a value of a key in use. Tiers are nearer.
	RankShared = RankFirst + maxKeys + 1
	// RankUsed is a Service that is not near, but was used. Renderers give it.
	RankUsed = RankShared + 1
	// RankNone is not near; of an endpoint: in no tier.
	RankNone = RankShared + 2
)

// RankTier is the rank of tier i, from 0: a place in the keys' order.
func RankTier(i int) Rank { return RankFirst + Rank(i) }
