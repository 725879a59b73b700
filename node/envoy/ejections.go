package envoy

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/xds/admin"
	"github.com/gridmesh/gridmesh/xds/render"
)

// Bounds of what is said of ejections, whatever Envoy holds.
const (
	maxEjections = 20 // clusters
	maxEjected   = 10 // endpoints of each
	maxDead      = 20 // Services of which nothing lives
)

// Ejections is what Envoy sends nobody to at the moment.
type Ejections struct {
	At    time.Time  `json:"at,omitzero"`     // when it said so; zero: never
	Error string     `json:"error,omitempty"` // why it did not since
	List  []Ejection `json:"list,omitempty"`
	More  int        `json:"more,omitempty"` // clusters that are not listed

	NoneLive     []string `json:"noneLive,omitempty"`     // Services with a cluster of which all endpoints are out of use, whether it is listed or not
	MoreNoneLive int      `json:"moreNoneLive,omitempty"` // such Services that are not named
}

// Ejection is a cluster with endpoints that are out of use.
type Ejection struct {
	Service   string           `json:"service"`
	Cluster   string           `json:"cluster"`
	Endpoints []admin.Endpoint `json:"endpoints,omitempty"` // that are, the first of them; none where Envoy was not asked which
	Out       int              `json:"out"`                 // how many are
	Of        int              `json:"of"`                  // how many it has
}

// listed is what is out of use of all that Envoy holds, and how many endpoints
// that are.
func listed(clusters []admin.Cluster, cat *render.Catalog, now time.Time) (e Ejections, out int) {
	var list []Ejection
	for _, c := range clusters {
		entry, ok := cat.Entry(c.Name)
		if !ok {
			continue // it is being emptied
		}
		if j := ejection(entry.Service.String(), c); j.Out > 0 {
			list = append(list, j)
			out += j.Out
		}
	}
	return summed(list, now), out
}

// counted is the same of what Envoy counts, which does not say which they are.
func counted(uses []admin.Use, cat *render.Catalog) (list []Ejection, out int) {
	for _, u := range uses {
		if entry, ok := cat.Entry(u.Cluster); ok && u.Ejected > 0 {
			list = append(list, Ejection{Service: entry.Service.String(), Cluster: u.Cluster, Out: u.Ejected, Of: max(u.Ejected, endpoints(entry))})
			out += u.Ejected
		}
	}
	return list, out
}

// endpoints is how many a cluster has: an address in two tiers is one of them.
func endpoints(entry *render.Entry) int {
	each := map[netip.AddrPort]bool{}
	for _, tier := range entry.Frontend.Tiers {
		for _, end := range tier.Endpoints {
			each[end.Addr] = true
		}
	}
	return len(each)
}

// summed lists by Service what fits.
func summed(list []Ejection, now time.Time) Ejections {
	slices.SortFunc(list, func(a, b Ejection) int {
		return cmp.Or(strings.Compare(a.Service, b.Service), strings.Compare(a.Cluster, b.Cluster))
	})
	e := Ejections{At: now, List: list}
	for _, j := range list {
		if j.Out >= j.Of {
			e.NoneLive = append(e.NoneLive, j.Service)
		}
	}
	e.NoneLive = slices.Compact(e.NoneLive)
	if more := len(e.NoneLive) - maxDead; more > 0 {
		e.NoneLive, e.MoreNoneLive = e.NoneLive[:maxDead], more
	}
	if more := len(list) - maxEjections; more > 0 {
		e.List, e.More = list[:maxEjections], more
	}
	return e
}

// ejection is what is out of use of one cluster.
func ejection(service string, c admin.Cluster) Ejection {
	j := Ejection{Service: service, Cluster: c.Name, Of: len(c.Endpoints)}
	for _, end := range c.Endpoints {
		if !end.Ejected && !end.Unhealthy {
			continue
		}
		if j.Out++; j.Out <= maxEjected {
			j.Endpoints = append(j.Endpoints, end)
		}
	}
	return j
}
