package node

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/node/preload"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds/admin"
	"github.com/gridmesh/gridmesh/xds/render"
)

const (
	// askEnvoyPause is between two questions at least: an answer may be megabytes.
	askEnvoyPause = time.Second
	// askEnvoyFor is how long one may take.
	askEnvoyFor = 5 * time.Second
	// statusWaits is how long a status waits for an answer.
	statusWaits = 2 * time.Second
)

// Bounds of what is said of ejections, whatever Envoy holds.
const (
	maxEjections = 20 // clusters
	maxEjected   = 10 // endpoints of each
)

// envoyLook is what Envoy said when it was last asked.
type envoyLook struct {
	ejections Ejections
	load      *Load // nil: it did not say
	out       int   // endpoints that are ejected or unhealthy; of no meaning after a failure
	err       error
	inUse     []string                  // clusters with connections since the look before
	totals    map[string]admin.Counters // by Service
}

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

// inForce is what the loop acted on last, for who reads beside it.
type inForce struct {
	view    *topology.View
	catalog *render.Catalog
}

// followEnvoy asks Envoy again and again. That it is not there is no news: the
// health says so.
func (a *Agent) followEnvoy(ctx context.Context) error {
	e := newEnvoyAsker(a)
	for {
		e.look(ctx)
		if !pause(ctx, askEnvoyPause) {
			return nil
		}
		select {
		case <-a.askEnvoy:
		case <-time.After(jitter(preload.LookEvery)):
		case <-ctx.Done():
			return nil
		}
	}
}

// lookAtEnvoy has Envoy asked, and waits a moment for what it says.
func (a *Agent) lookAtEnvoy(ctx context.Context) {
	if a.parts.Envoy == nil {
		return
	}
	wake := a.envoy.Wake()
	defer a.envoy.Forget(wake)
	select {
	case <-wake: // what is known already
	default:
	}
	fill(a.askEnvoy)
	select {
	case <-wake:
	case <-time.After(statusWaits):
	case <-ctx.Done():
	}
}

// envoyAsker adds up what Envoy says from one look to the next. It has one owner.
type envoyAsker struct {
	*Agent
	traffic *traffic
	began   bool // it has said something
	asked   bool // how loaded it is
	refused uint64
	full    quiet
	failing bool
}

func newEnvoyAsker(a *Agent) *envoyAsker { return &envoyAsker{Agent: a, traffic: newTraffic()} }

func (e *envoyAsker) look(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, askEnvoyFor)
	defer cancel()
	list, err := e.parts.Envoy.Clusters(within)
	var load admin.Overload
	if err == nil {
		load, err = e.parts.Envoy.Overload(within)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		e.failed(err)
	default:
		e.failing = false
		next := e.take(list, time.Now())
		next.load = e.loads(load)
		e.envoy.Publish(next)
	}
}

// failed keeps what was counted, and nothing that may be over.
func (e *envoyAsker) failed(err error) {
	next := &envoyLook{err: err, ejections: Ejections{Error: err.Error()}}
	if last, ok := e.envoy.Get(); ok {
		next.totals, next.ejections.At = last.totals, last.ejections.At
	}
	e.envoy.Publish(next)
	if len(e.xds.Streams()) == 0 {
		return // it is not there
	}
	if !e.failing {
		e.log.Warn("Envoy is connected, but its admin socket gives no answer: what it ejects and what is in use is unknown", obs.KeyErr, err)
	}
	e.failing = true
}

func (e *envoyAsker) take(list []admin.Cluster, now time.Time) *envoyLook {
	known := e.inForce.Load()
	if known == nil {
		known = &inForce{view: &topology.View{}, catalog: &render.Catalog{}}
	}
	next := &envoyLook{ejections: Ejections{At: now}}
	used := e.traffic.take(list, known, now)
	if e.began { // else it is all that Envoy ever did, a scan of long ago too
		next.inUse = used
	}
	e.began = true
	next.totals = e.traffic.Totals()
	next.ejections.List, next.out = ejections(list, known.catalog)
	if more := len(next.ejections.List) - maxEjections; more > 0 {
		next.ejections.List, next.ejections.More = next.ejections.List[:maxEjections], more
	}
	return next
}

// ejections returns the clusters with endpoints that are out of use, by
// Service, and how many such endpoints there are.
func ejections(clusters []admin.Cluster, cat *render.Catalog) (list []Ejection, out int) {
	for _, c := range clusters {
		entry, ok := cat.Entry(c.Name)
		if !ok {
			continue // it is being emptied
		}
		e := Ejection{Service: entry.Service.String(), Cluster: c.Name, Of: len(c.Endpoints)}
		for _, end := range c.Endpoints {
			if !end.Ejected && !end.Unhealthy {
				continue
			}
			if e.Out++; e.Out <= maxEjected {
				e.Endpoints = append(e.Endpoints, end)
			}
		}
		if out += e.Out; e.Out > 0 {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b Ejection) int {
		return cmp.Or(strings.Compare(a.Service, b.Service), strings.Compare(a.Cluster, b.Cluster))
	})
	return list, out
}
