package topology

import "slices"

// terminating keeps, in each tier, the ready endpoints; where none is ready,
// those that still serve while they terminate (KEP-1669).
var terminating = &rule{
	name:   "terminating",
	reason: "not ready",
	cure:   "see why it is not ready: its pod is the one of kubectl get pods -n NAMESPACE -o wide --field-selector status.podIP=ADDRESS, and kubectl describe pod tells its cause",
	only:   forTraffic,
	arrange: func(q *question, tiers []tier) []tier {
		for i, t := range tiers {
			keep := isServing
			if slices.ContainsFunc(t.list, func(c candidate) bool { return c.Ready }) {
				keep = isReady
			}
			tiers[i].list = q.filter(t.list, keep)
		}
		return tiers
	},
	detail: func(_ *question, c candidate) string {
		if c.Serving && c.Terminating {
			return "terminating, and ready ones exist"
		}
		return "not ready"
	},
}

func isReady(_ *question, c candidate) bool { return c.Ready }

func isServing(_ *question, c candidate) bool { return c.Serving && c.Terminating }

// usable reports whether the endpoint answers anybody, wherever they are.
func (c candidate) usable() bool { return c.Ready || c.Serving && c.Terminating }
