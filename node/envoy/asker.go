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
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds/admin"
	"github.com/gridmesh/gridmesh/xds/render"
)

// AnswerWithin is how long an answer may take.
const AnswerWithin = 5 * time.Second

// What part of the time Envoy may be at telling all that it holds. It takes no
// update meanwhile, which is half a second where it holds 100,000 endpoints.
const (
	closeEffort = 20  // because somebody looks
	idleEffort  = 100 // for an Envoy that does not count by cluster
)

// Admin is the admin socket of the local Envoy.
type Admin interface {
	// Stats returns what it counts. It waits until ctx ends at most. An Envoy
	// that is not there is an error.
	Stats(ctx context.Context) (admin.Stats, error)
	// Clusters returns all that it holds. It waits as long.
	Clusters(ctx context.Context) ([]admin.Cluster, error)
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
	began   bool      // it has said something
	refused uint64    // connections, so far
	listing time.Time // when it may next be asked for all that it holds
}

// NewAsker asks nothing yet.
func NewAsker(a Admin) *Asker { return &Asker{admin: a, traffic: newTraffic(), last: &Look{}} }

// Look asks what Envoy counts. What is in force is nil before the first view.
// The answer is nil where ctx has ended.
func (a *Asker) Look(ctx context.Context, known *InForce) *Look { return a.look(ctx, known, nobody) }

// LookClosely asks besides which endpoints are ejected, where any are, and it was
// not asked that much just now.
func (a *Asker) LookClosely(ctx context.Context, known *InForce) *Look {
	return a.look(ctx, known, somebody)
}

// reader is who wants to know which endpoints are ejected.
type reader bool

const nobody, somebody reader = false, true

// answer is what Envoy said.
type answer struct {
	counts admin.Stats
	list   []Ejection      // what it counts as out of use
	out    int             // how many endpoints those are
	all    []admin.Cluster // that it holds
	listed bool            // it was asked for that
}

func (a *Asker) look(ctx context.Context, known *InForce, who reader) *Look {
	if known == nil {
		known = &InForce{View: &topology.View{}, Catalog: &render.Catalog{}}
	}
	within, cancel := context.WithTimeout(ctx, AnswerWithin)
	defer cancel()
	said, err := a.ask(within, known, who)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil: // keeps what was counted, and nothing that may be over
		err = brief(err)
		a.last = &Look{Err: err, Ejections: Ejections{At: a.last.Ejections.At, Error: err.Error()}, totals: a.last.totals}
	default:
		a.last = a.take(said, known, time.Now())
	}
	return a.last
}

// mostSaid bounds, in bytes, what is told of an answer that is none: whatever listens at the
// socket says it, as a line of a header that has no end.
const mostSaid = 300

// said is an error with a text that is fit to be told.
type said struct {
	error
	text string
}

func (s said) Error() string { return s.text }
func (s said) Unwrap() error { return s.error }

// brief bounds the text of an error, and quotes what cannot be printed.
func brief(err error) error {
	text := run.Printable(err.Error(), "")
	if len(text) > mostSaid {
		text = strings.ToValidUTF8(text[:mostSaid], "") + " …"
	}
	return said{err, text}
}

// ask asks what Envoy counts, and for all that it holds where that is worth it.
func (a *Asker) ask(ctx context.Context, known *InForce, who reader) (said answer, err error) {
	if said.counts, err = a.admin.Stats(ctx); err != nil {
		return said, err
	}
	effort := time.Duration(idleEffort)
	if said.counts.Counted {
		effort = closeEffort
		if said.list, said.out = counted(said.counts.Uses, known.Catalog); who == nobody || said.out == 0 {
			return said, nil
		}
	}
	start := time.Now()
	if start.Before(a.listing) {
		return said, nil
	}
	said.listed = true
	said.all, err = a.admin.Clusters(ctx)
	a.listing = time.Now().Add(effort * time.Since(start))
	return said, err
}

// take takes what Envoy says. What it did and refused before it was first asked is
// old news: a scan of long ago is no use.
func (a *Asker) take(said answer, known *InForce, now time.Time) *Look {
	next := &Look{}
	switch {
	case said.counts.Counted:
		next.InUse = a.traffic.take(said.counts.Uses, known, now)
	case said.listed:
		next.InUse = a.traffic.take(admin.Uses(said.all), known, now)
	default: // not again so soon
		*next = *a.last
		next.InUse = nil
	}
	switch {
	case said.listed:
		next.Ejections, next.out = listed(said.all, known.Catalog, now)
	case said.counts.Counted:
		next.Ejections, next.out = summed(said.list, now), said.out
	}
	refused := said.counts.Overload.Refused
	next.Load = &Load{Overload: said.counts.Overload}
	if a.began {
		next.Load.Newly = newly(a.refused, refused)
	} else {
		next.InUse = nil
	}
	a.began, a.refused = true, refused
	next.totals = a.traffic.Totals()
	return next
}
