package admin

import (
	"maps"
	"net/netip"
	"slices"
)

// Other gathers the traffic of what there was no room for.
const Other = ""

// Counters are sums since the agent began to look.
type Counters struct {
	Connections uint64 `json:"connections"` // that were tried
	Failed      uint64 `json:"failed"`      // of them
	Active      uint64 `json:"active"`      // open when last looked at
}

func (c Counters) plus(more Counters) Counters {
	return Counters{c.Connections + more.Connections, c.Failed + more.Failed, c.Active + more.Active}
}

// counted is what counters are of; no end is the whole cluster.
type counted struct {
	cluster string
	end     netip.AddrPort
}

// Traffic adds up connections by Service. What was tried between two looks and
// left with an Envoy, or with an endpoint that was counted alone, is not seen.
// It has one owner.
type Traffic struct {
	most   int
	seen   map[counted]Counters // as last read
	totals map[string]Counters
}

// NewTraffic counts for at most that many Services; the others are added up as
// Other.
func NewTraffic(most int) *Traffic {
	return &Traffic{most: most, totals: map[string]Counters{}}
}

// Take takes what was read of an Envoy. serviceOf names the Service of a
// cluster, "" for none: its traffic is not counted. used are the clusters
// that have open connections, or had any since the last Take, sorted.
func (t *Traffic) Take(uses []Use, serviceOf func(cluster string) string) (used []string) {
	for service, sum := range t.totals {
		sum.Active = 0
		t.totals[service] = sum
	}
	seen, sums := make(map[counted]Counters, len(uses)), map[string]Counters{}
	for _, u := range uses {
		by := counted{u.Cluster, u.End}
		before := t.seen[by]
		if u.Connections < before.Connections {
			before = Counters{} // a new Envoy, a new cluster of that name, or a new endpoint at the address
		}
		seen[by] = u.Counters
		sums[u.Cluster] = sums[u.Cluster].plus(Counters{u.Connections - before.Connections, u.Failed - min(u.Failed, before.Failed), u.Active})
	}
	t.seen = seen
	for _, cluster := range slices.Sorted(maps.Keys(sums)) {
		sum := sums[cluster]
		if sum.Connections == 0 && sum.Active == 0 {
			continue
		}
		if service := serviceOf(cluster); service != "" {
			used = append(used, cluster)
			t.add(service, sum)
		}
	}
	return used
}

func (t *Traffic) add(service string, more Counters) {
	sum, has := t.totals[service]
	if !has && len(t.totals) >= t.most {
		service = Other
		sum = t.totals[service]
	}
	t.totals[service] = sum.plus(more)
}

// Forget drops the counters of Services for which keep is false.
func (t *Traffic) Forget(keep func(service string) bool) {
	maps.DeleteFunc(t.totals, func(service string, _ Counters) bool { return service != Other && !keep(service) })
}

// Totals returns the counters by Service.
func (t *Traffic) Totals() map[string]Counters { return maps.Clone(t.totals) }
