package node

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds"
)

// see takes the next snapshot's view.
func (l *loop) see(snap *topology.Snapshot) {
	was := l.view
	l.view = l.viewer.See(snap)
	l.unwritten = l.unwritten || was == nil || !slices.Equal(was.ServiceCIDRs, l.view.ServiceCIDRs)
	for range l.view.Changed(was) {
		l.unwritten = true
		break
	}
}

// written notes that the kernel holds the view. What it refused for hours is served since
// now, and what it is only told again since before.
func (l *loop) written(now time.Time) {
	if l.unwritten {
		l.updated, l.unwritten = now, false
	}
}

// changed shows what is served from now on and has it saved.
func (l *loop) changed() {
	l.publish()
	if l.live {
		l.saver.Mark()
	}
}

// publish makes the loop's state visible, from the first snapshot on.
func (l *loop) publish() {
	if l.view == nil {
		return
	}
	r := &report.Report{
		Version: obs.Version(), Node: l.cfg.Node, Unit: l.view.Viewpoint.Values, Source: report.LastGood,
		Pods: l.capture.Pods(), PodCIDRs: l.pods, Services: l.view.Services.Len(), Preloaded: l.catalog.PreloadedLen(),
		Updated: l.updated, UnitUnknown: !l.view.Viewpoint.Known,
	}
	if l.live {
		r.Source = report.Live
	}
	l.unreached.Fill(r, l.view)
	l.metrics.elsewhere.Set(float64(len(r.Elsewhere) + r.MoreElsewhere))
	if l.cfg.Datapath != topology.DatapathNone {
		l.tellPaths(r, l.served.Next(l.view))
	}
	if err := errors.Join(l.failure, l.broken); err != nil {
		r.Error = err.Error()
	}
	if h := l.healing; h.held.Endpoints > 0 {
		r.Held = &report.Held{Endpoints: h.held.Endpoints, Nodes: h.held.Nodes, Until: h.hold.End()}
	}
	r.VotedDead, r.MoreDead = report.Listed(l.dead)
	r.UnitWithout = l.units.Without
	r.Notes = append(l.units.Notes(), l.used.Notes()...)
	l.problems.Fill(r, l.view, l.catalog, slices.Concat(l.guarded.Next(l.snap, l.ranges), l.balancers.problems()))
	l.metrics.problems.Set(float64(len(r.Problems) + r.More))
	l.tellManifests(r)
	l.report.Store(r)
}

// status is the loop's last report with what changes without the loop.
func (a *Agent) status() report.Report {
	r := report.Report{Version: obs.Version(), Node: a.cfg.Node, Source: report.None, Datapath: a.cfg.Datapath.String()}
	if last := a.report.Load(); last != nil {
		r = *last
	} else if r.TakeOver = a.cfg.TakeOver; r.TakeOver {
		b, _ := a.beside.Get()
		r.BesideKubeProxy, r.KubeProxyUntil, r.KubeProxyAlive = b.so, b.until, b.alive
	}
	if r.Unit == nil {
		r.Unit = map[string]string{}
	}
	if !a.pulse.alive(time.Now()) { // it cannot say so itself
		r.Error = strings.TrimSuffix(loopHangs+"; "+r.Error, "; ")
	}
	a.tellEngine(&r, time.Now())
	a.tellPolicies(&r)
	r.LastContact = a.knownContact()
	r.Findings = a.found.all()
	if a.parts.Cluster != nil {
		api := a.parts.Cluster.APIServer()
		if !r.LastContact.IsZero() { // which is no older, and by the clock as it is set now
			api.LastContact = r.LastContact
		}
		api.Refuses = !api.Refused.IsZero()
		r.APIServer = &api
	}
	r.Envoys = append([]xds.Stream{}, a.xds.Streams()...)
	r.Refused(a.xds.Nacks())
	if look, ok := a.envoy.Get(); ok {
		r.Ejections, r.Load = &look.Ejections, look.Load
	}
	return r
}

// tellPolicies says how old the last word of NetworkPolicies is, which the loop, that publishes
// what changes, does not.
func (a *Agent) tellPolicies(r *report.Report) {
	objects, told := a.policies.Get()
	switch {
	case r.Source == report.None || a.parts.Cluster == nil || a.cfg.Datapath == topology.DatapathNone:
	case r.Policies && objects.so && r.PoliciesUntil.IsZero():
		r.PoliciesSeen = objects.at
	case r.Policies || a.cfg.Datapath == topology.DatapathKernel: // by which none is bypassed
	case !told:
		r.PoliciesUnasked = true
	case !objects.so:
		r.PoliciesNone = objects.at
	}
}

func (a *Agent) serveStatus(w http.ResponseWriter, q *http.Request) {
	a.lookAtEnvoy(q.Context())
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a.status())
}
