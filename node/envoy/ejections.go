package envoy

import (
	"cmp"
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
)

// Ejections is what Envoy sends nobody to at the moment.
type Ejections struct {
	At    time.Time  `json:"at,omitzero"`     // when it said so; zero: never
	Error string     `json:"error,omitempty"` // why it did not since
	List  []Ejection `json:"list,omitempty"`
	More  int        `json:"more,omitempty"` // clusters that are not listed
}

// Ejection is a cluster with endpoints that are out of use.
type Ejection struct {
	Service   string           `json:"service"`
	Cluster   string           `json:"cluster"`
	Endpoints []admin.Endpoint `json:"endpoints"` // that are, the first of them
	Out       int              `json:"out"`       // how many are
	Of        int              `json:"of"`        // how many it has
}

// ejections returns the clusters with endpoints that are out of use, by
// Service, and how many such endpoints there are.
func ejections(clusters []admin.Cluster, cat *render.Catalog, now time.Time) (e Ejections, out int) {
	for _, c := range clusters {
		entry, ok := cat.Entry(c.Name)
		if !ok {
			continue // it is being emptied
		}
		if j := ejection(entry.Service.String(), c); j.Out > 0 {
			e.List = append(e.List, j)
			out += j.Out
		}
	}
	slices.SortFunc(e.List, func(a, b Ejection) int {
		return cmp.Or(strings.Compare(a.Service, b.Service), strings.Compare(a.Cluster, b.Cluster))
	})
	if more := len(e.List) - maxEjections; more > 0 {
		e.List, e.More = e.List[:maxEjections], more
	}
	e.At = now
	return e, out
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
