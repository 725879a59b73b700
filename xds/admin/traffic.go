package admin

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Other gathers the traffic of what there was no room for.
const Other = ""

// Counters are sums since the agent began to look.
type Counters struct {
	Connections uint64 `json:"connections"` // that were tried
	Failed      uint64 `json:"failed"`      // of them
	Active      uint64 `json:"active"`      // open when last looked at
}

// Traffic adds up connections by Service. What was tried between two looks and
// left with its endpoint, or with an Envoy, is not seen. It has one owner.
type Traffic struct {
	most   int
	seen   map[string]map[netip.AddrPort]Endpoint // cluster -> endpoint, as last read
	totals map[string]Counters
}

// NewTraffic counts for at most that many Services; the others are added up as
// Other.
func NewTraffic(most int) *Traffic {
	return &Traffic{most: most, seen: map[string]map[netip.AddrPort]Endpoint{}, totals: map[string]Counters{}}
}

// Take takes what was read of an Envoy. serviceOf names the Service of a
// cluster, "" for none: its traffic is not counted. used are the clusters
// that have open connections, or had any since the last Take, sorted.
func (t *Traffic) Take(list []Cluster, serviceOf func(cluster string) string) (used []string) {
	for service, sum := range t.totals {
		sum.Active = 0
		t.totals[service] = sum
	}
	seen := make(map[string]map[netip.AddrPort]Endpoint, len(list))
	for _, c := range list {
		now := make(map[netip.AddrPort]Endpoint, len(c.Endpoints))
		var sum Counters
		for _, e := range c.Endpoints {
			before := t.seen[c.Name][e.Address]
			if e.Connections < before.Connections {
				before = Endpoint{} // a new Envoy, or a new endpoint at the address
			}
			sum.Connections += e.Connections - before.Connections
			sum.Failed += e.Failed - min(e.Failed, before.Failed)
			sum.Active += e.Active
			now[e.Address] = e
		}
		seen[c.Name] = now
		service := serviceOf(c.Name)
		if service == "" {
			continue
		}
		if sum.Connections > 0 || sum.Active > 0 {
			used = append(used, c.Name)
			t.add(service, sum)
		}
	}
	t.seen = seen
	slices.SortFunc(used, strings.Compare)
	return used
}

func (t *Traffic) add(service string, more Counters) {
	sum, has := t.totals[service]
	if !has && len(t.totals) >= t.most {
		service = Other
		sum = t.totals[service]
	}
	sum.Connections += more.Connections
	sum.Failed += more.Failed
	sum.Active += more.Active
	t.totals[service] = sum
}

// Forget drops the counters of Services for which keep is false.
func (t *Traffic) Forget(keep func(service string) bool) {
	maps.DeleteFunc(t.totals, func(service string, _ Counters) bool { return service != Other && !keep(service) })
}

// Totals returns the counters by Service.
func (t *Traffic) Totals() map[string]Counters { return maps.Clone(t.totals) }
