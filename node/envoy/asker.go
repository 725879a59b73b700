// Package envoy is what the local Envoy alone knows: which endpoints it sends
// nobody to, how many connections each Service had, and how near it is to what it
// may use.
//
//	asker.go      asks, and adds up what is said from one look to the next
//	ejections.go  endpoints that are out of use
//	traffic.go    connections by Service, of a bounded number of them
//	load.go       how near it is to its limits
//	metrics.go    the last look as metrics
//
// Nothing in it logs: when to ask, and what to say, is the caller's to know.
package envoy

import (
	"context"
	"time"

	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds/admin"
	"github.com/gridmesh/gridmesh/xds/render"
)

// AnswerWithin is how long an answer may take.
const AnswerWithin = 5 * time.Second

// Admin is the admin socket of the local Envoy.
type Admin interface {
	// Clusters returns the clusters that it holds. It waits until ctx ends at
	// most. An Envoy that is not there is an error.
	Clusters(ctx context.Context) ([]admin.Cluster, error)
	// Overload returns how near it is to what it may use. It waits as long.
	Overload(ctx context.Context) (admin.Overload, error)
}

// InForce is what the node acts on: whose the clusters are.
type InForce struct {
	View    *topology.View
	Catalog *render.Catalog
}

// Look is what Envoy said when it was last asked. It is not changed any more.
type Look struct {
	Ejections Ejections
	Load      *Load    // nil: it did not say
	InUse     []string // clusters with connections since the look before
	Err       error    // why it gave no answer

	out    int                       // endpoints that are ejected or unhealthy; of no meaning after a failure
	totals map[string]admin.Counters // by Service
}

// Asker adds up what Envoy says from one look to the next. It has one owner.
type Asker struct {
	admin   Admin
	traffic *traffic
	last    *Look
	began   bool   // it has said something
	refused uint64 // connections, so far
}

// NewAsker asks nothing yet.
func NewAsker(a Admin) *Asker { return &Asker{admin: a, traffic: newTraffic(), last: &Look{}} }

// Look asks. What is in force is nil before the first view. The answer is nil
// where ctx has ended.
func (a *Asker) Look(ctx context.Context, known *InForce) *Look {
	within, cancel := context.WithTimeout(ctx, AnswerWithin)
	defer cancel()
	list, err := a.admin.Clusters(within)
	var load admin.Overload
	if err == nil {
		load, err = a.admin.Overload(within)
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil: // keeps what was counted, and nothing that may be over
		a.last = &Look{Err: err, Ejections: Ejections{At: a.last.Ejections.At, Error: err.Error()}, totals: a.last.totals}
	default:
		a.last = a.take(list, load, known, time.Now())
	}
	return a.last
}

// take takes what Envoy says. What it did and refused before it was first asked is
// old news: a scan of long ago is no use.
func (a *Asker) take(list []admin.Cluster, load admin.Overload, known *InForce, now time.Time) *Look {
	if known == nil {
		known = &InForce{View: &topology.View{}, Catalog: &render.Catalog{}}
	}
	next := &Look{Load: &Load{Overload: load}}
	used := a.traffic.take(list, known, now)
	if a.began {
		next.InUse, next.Load.Newly = used, newly(a.refused, load.Refused)
	}
	a.began, a.refused = true, load.Refused
	next.totals = a.traffic.Totals()
	next.Ejections, next.out = ejections(list, known.Catalog, now)
	return next
}
