package node

import (
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// hangsAfter is how long the loop may be busy with one thing before it counts
// as hanging. It wakes every second.
const hangsAfter = time.Minute

// pulse is when the loop last began something.
type pulse struct{ at atomic.Pointer[time.Time] }

func (p *pulse) beat(now time.Time) { p.at.Store(&now) }

// alive reports whether the loop goes on. While nothing has begun it is.
func (p *pulse) alive(now time.Time) bool {
	at := p.at.Load()
	return at == nil || now.Sub(*at) < hangsAfter
}

// health is what /healthz, /readyz and /livez answer, in kube-proxy's words.
type health struct {
	LastUpdated  time.Time `json:"lastUpdated"` // of one that is well: now
	CurrentTime  time.Time `json:"currentTime"`
	NodeEligible *bool     `json:"nodeEligible,omitempty"` // of /healthz alone
	Healthy      bool      `json:"healthy"`
	Source       string    `json:"source"`
	Reason       string    `json:"reason,omitempty"` // why it is not healthy
}

// Reasons, which everybody may read; the status says more.
const (
	notYet    = "nothing is served yet"
	notWhole  = "the rules are not as they should be"
	noEnvoy   = "no Envoy is connected"
	loopHangs = "the agent hangs"
	unsourced = "what says where to ask what is to be served cannot be used"
	goesSoon  = "the Node is about to go: load balancers are to send it nobody new"
)

// health is that of what the node serves: rules in line with the newest
// snapshot, and an Envoy behind those that hand it connections. A restart of the
// agent cures none of it.
func (a *Agent) health(now time.Time) health {
	h := health{CurrentTime: now.UTC()}
	r := a.report.Load()
	if r == nil {
		h.Reason = notYet
		return h
	}
	h.LastUpdated, h.Source = r.Updated.UTC(), r.Source
	switch {
	case !a.pulse.alive(now):
		h.Reason = loopHangs
	case r.Error != "":
		h.Reason = notWhole
	case len(a.xds.Streams()) == 0 && r.NeedsEnvoy():
		h.Reason = noEnvoy
	}
	h.Healthy = h.Reason == ""
	return h
}

// forBalancers is the health that load balancers hear: what they send the kernel serves, where
// it has a path, with an Envoy or without.
func (a *Agent) forBalancers(now time.Time) health {
	h := a.health(now)
	if h.Reason == noEnvoy && a.cfg.Datapath != topology.DatapathNone {
		h.Healthy, h.Reason = true, ""
	}
	return h
}

// liveness is that of the process alone, which a restart may cure: whether
// there is a cloud, an Envoy, or anything to serve does not matter.
func (a *Agent) liveness(now time.Time) health {
	h := a.health(now)
	h.Healthy, h.Reason = a.pulse.alive(now), ""
	if !h.Healthy {
		h.Reason = loopHangs
	}
	return h
}

// serveEligible answers load balancers: a Node that is about to go is well, and to get
// no new connections (KEP-3836).
func (a *Agent) serveEligible(w http.ResponseWriter, _ *http.Request) {
	h, eligible := a.forBalancers(time.Now()), !a.leaving.Load()
	h.NodeEligible = &eligible
	if !eligible && h.Healthy {
		h.Reason = goesSoon
	}
	reply(w, h, h.Healthy && eligible)
}

// serveReady answers readiness probes: a node that serves what it knows, for nothing could be
// asked since the agent started, is well, and no update is to go on to the next like it.
func (a *Agent) serveReady(w http.ResponseWriter, _ *http.Request) {
	h := a.health(time.Now())
	if ever, fault := a.usable(); h.Healthy && !ever && fault != nil {
		h.Healthy, h.Reason = false, unsourced
	}
	reply(w, h, h.Healthy)
}

func (a *Agent) usable() (ever bool, fault error) {
	if a.parts.Usable == nil {
		return true, nil
	}
	return a.parts.Usable()
}

func (a *Agent) serveLiveness(w http.ResponseWriter, _ *http.Request) {
	h := a.liveness(time.Now())
	reply(w, h, h.Healthy)
}

func reply(w http.ResponseWriter, h health, ok bool) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if ok {
		h.LastUpdated = h.CurrentTime // as kube-proxy's, for who wants it to be recent
	} else {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(h)
}

// followLeaving keeps in mind whether the own Node is about to go. What the API server
// said last stands while it is away, and until it has said anything the Node stays.
func (a *Agent) followLeaving(ctx context.Context) error {
	return a.parts.Cluster.FollowLeaving(ctx, a.cfg.Node, func(leaving bool) {
		if a.leaving.Swap(leaving) == leaving {
			return
		}
		if leaving {
			a.log.Info("the Node is about to go: /healthz tells load balancers to send it nobody new, and what is open goes on")
		} else {
			a.log.Info("the Node stays: /healthz has load balancers send to it again")
		}
	})
}
