package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node/envoy"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds"
)

// maxListed bounds each list of a report that others can make long.
const maxListed = 50

// Where the snapshot that is in force comes from.
const (
	sourceLive = "live"
	sourceLast = "last good state"
	sourceNone = "none yet" // before the first snapshot
)

// Report is what a running agent serves and what is wrong, as JSON on the
// status socket. Others read it: fields may come, and none is renamed or gets
// another meaning (docs/agent.md lists them).
type Report struct {
	Version     string             `json:"version"`
	Node        string             `json:"node"`
	Unit        map[string]string  `json:"unit"`
	Source      string             `json:"source"`               // "live", "last good state" or "none yet"
	LastContact time.Time          `json:"lastContact,omitzero"` // when the source was last known to be alive, to this process or one before it; zero: never, as far as is known
	APIServer   *APIServer         `json:"apiServer,omitempty"`
	Pods        string             `json:"pods"`
	PodCIDRs    []netip.Prefix     `json:"podCIDRs,omitempty"` // of this node
	Services    int                `json:"services"`
	Preloaded   int                `json:"preloaded"`
	Updated     time.Time          `json:"updated,omitzero"` // zero before the first snapshot
	Error       string             `json:"error,omitempty"`
	Held        *Held              `json:"held,omitempty"` // nil: nothing is
	Notes       []string           `json:"notes,omitempty"`
	Envoys      []xds.Stream       `json:"envoys"`
	Nacks       []xds.Nack         `json:"nacks,omitempty"`
	MoreNacks   int                `json:"moreNacks,omitempty"` // refusals that are not listed
	Ejections   *envoy.Ejections   `json:"ejections,omitempty"` // nil: Envoy was not asked
	Load        *envoy.Load        `json:"load,omitempty"`      // nil: Envoy did not say
	Findings    []capture.Finding  `json:"findings,omitempty"`
	Problems    []topology.Problem `json:"problems,omitempty"`
	More        int                `json:"moreProblems,omitempty"` // problems that are not listed
	Notices     int                `json:"notices"`                // what Services ask for and no node serves: gridmesh view
}

// APIServer is how the API server answers.
type APIServer struct {
	LastContact time.Time `json:"lastContact,omitzero"` // when it last answered anything, as above; zero: never
	Error       string    `json:"error,omitempty"`      // its last failure, "" where it answered since
	Held        []string  `json:"held,omitempty"`       // for each of its lists that is not believed, why
}

// Held is what is held as it was before an outage of the uplink.
type Held struct {
	Endpoints int       `json:"endpoints"`
	Nodes     []string  `json:"nodes"`
	Until     time.Time `json:"until"` // at the latest
}

// publish makes the loop's state visible, from the first snapshot on.
func (l *loop) publish() {
	if l.view == nil {
		return
	}
	r := &Report{
		Version: obs.Version(), Node: l.cfg.Node, Unit: l.view.Viewpoint.Values, Source: sourceLast,
		Pods: l.capture.Pods(), PodCIDRs: l.pods, Services: l.view.Services.Len(), Preloaded: l.catalog.PreloadedLen(),
		Updated: time.Now(),
	}
	if l.live {
		r.Source = sourceLive
	}
	if err := errors.Join(l.failure, l.broken); err != nil {
		r.Error = err.Error()
	}
	if h := l.healing; h.held.Endpoints > 0 {
		r.Held = &Held{Endpoints: h.held.Endpoints, Nodes: h.held.Nodes, Until: h.hold.End()}
	}
	r.Notes = append(unitNotes(l.view.KeysInUse), l.used.Notes()...)
	r.Problems, r.More = l.problems.next(l.view, l.catalog, l.guarded.Next(l.snap, l.cfg.ServiceCIDRs))
	l.metrics.problems.Set(float64(len(r.Problems) + r.More))
	r.Notices = l.problems.notices
	l.report.Store(r)
}

// status is the loop's last report with what changes without the loop.
func (a *Agent) status() Report {
	r := Report{Version: obs.Version(), Node: a.cfg.Node, Source: sourceNone}
	if last := a.report.Load(); last != nil {
		r = *last
	}
	if r.Unit == nil {
		r.Unit = map[string]string{}
	}
	if !a.pulse.alive(time.Now()) { // it cannot say so itself
		r.Error = strings.TrimSuffix(loopHangs+"; "+r.Error, "; ")
	}
	r.LastContact = a.knownContact()
	r.Findings = a.found.all()
	if a.parts.Cluster != nil {
		api := a.parts.Cluster.APIServer()
		if r.LastContact.After(api.LastContact) {
			api.LastContact = r.LastContact
		}
		r.APIServer = &api
	}
	r.Envoys, r.Nacks = append([]xds.Stream{}, a.xds.Streams()...), a.xds.Nacks()
	if more := len(r.Nacks) - maxListed; more > 0 {
		r.Nacks, r.MoreNacks = r.Nacks[:maxListed], more
	}
	if look, ok := a.envoy.Get(); ok {
		r.Ejections, r.Load = &look.Ejections, look.Load
	}
	return r
}

func (a *Agent) serveStatus(w http.ResponseWriter, q *http.Request) {
	a.lookAtEnvoy(q.Context())
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a.status())
}

// Status asks the agent that serves a status socket.
func Status(ctx context.Context, socket string) (*Report, error) {
	r := &Report{}
	if err := run.AskUnix(ctx, socket, "/status", r); err != nil {
		return nil, fmt.Errorf("no agent answers on %s (is it running, and may you open the socket?): %w", socket, err)
	}
	return r, nil
}
