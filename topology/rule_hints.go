package topology

import "slices"

// trafficHints is kube-proxy's choice for Services without keys: this node's
// endpoints if every ready one has node hints and one names it, else this
// zone's likewise, else all (KEP-2433, KEP-3015; CategorizeEndpoints of
// Kubernetes 1.36).
var trafficHints = &rule{
	name:   "traffic hints",
	reason: "hinted to another zone or node",
	only:   forTraffic,
	when:   func(q *question) bool { return q.keys.Mode == NoKeys && !q.local },
	arrange: func(q *question, tiers []tier) []tier {
		for i, t := range tiers {
			if hinted := q.hintMode(t.list); hinted != nil {
				tiers[i].list = q.filter(t.list, hinted)
			}
		}
		return tiers
	},
}

// hintMode returns the filter that the hints ask for, nil for none. Where it
// returns one, at least one ready endpoint passes it.
func (q *question) hintMode(list []candidate) func(*question, candidate) bool {
	allNode, allZone, anyNode, anyZone := true, q.vp.Zone != "", false, false
	for _, c := range list {
		if !c.Ready {
			continue
		}
		allNode = allNode && len(c.HintNodes) > 0
		allZone = allZone && len(c.HintZones) > 0
		anyNode = anyNode || hintsNode(q, c)
		anyZone = anyZone || hintsZone(q, c)
	}
	switch {
	case allNode && anyNode:
		return hintsNode
	case allZone && anyZone:
		return hintsZone
	}
	return nil
}

func hintsNode(q *question, c candidate) bool { return slices.Contains(c.HintNodes, q.vp.Name) }

func hintsZone(q *question, c candidate) bool { return slices.Contains(c.HintZones, q.vp.Zone) }
