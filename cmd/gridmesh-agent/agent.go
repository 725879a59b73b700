package main

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/kube/events"
	kubefeed "github.com/gridmesh/gridmesh/kube/feed"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds"
	"github.com/gridmesh/gridmesh/xds/render"
)

const (
	repairEvery = 5 * time.Second
	// liveFirst is how long a source may take before the last good state is
	// used. Where rules of the run before are in force, waiting costs nothing.
	liveFirst     = 500 * time.Millisecond
	stateInterval = 10 * time.Second
	// closeAfter leaves Envoy time to learn of a move, so that what is closed
	// does not come back where it was.
	closeAfter = 250 * time.Millisecond
)

// agent is the loop of a node: gather, decide, act. Everything below the
// mutex is owned by loop.
type agent struct {
	cfg     *config
	log     *slog.Logger
	metrics *metrics
	source  feed
	xds     *xds.Server
	capture *capture.Capture
	viewer  *topology.Viewer
	catalog *render.Cataloger
	keeper  *source.Keeper

	asked   chan struct{}
	askedMu sync.Mutex
	names   []string

	out      source.Snapshots              // what other processes are fed
	state    status                        // what status and healthz read
	api      *kubefeed.Feed                // the source, where it is an API server
	events   *events.Node                  // about this node; nil without an API server
	later    []func(context.Context) error // checks that need not hold up the start
	foundMu  sync.Mutex
	found    []capture.Finding
	problems problemIndex
	snap     *topology.Snapshot
	view     *topology.View
	cat      *render.Catalog
	unsaved  bool
	strays   *time.Timer // when to look for connections that a move left behind; nil: never
	strayErr error
	live     bool // the snapshot comes from the source, not from disk
}

// feed is where snapshots come from.
type feed interface {
	Run(ctx context.Context) error
	Get() (*topology.Snapshot, bool)
	Wake() <-chan struct{}
	LastContact() time.Time
}

// restore serves from the last good state until the source has a whole one.
// The state may be older than what Envoy and the kernel hold, so it only adds.
func (a *agent) restore(ctx context.Context, st *source.State) {
	if st == nil {
		return
	}
	a.catalog.Used(st.Used...)
	if a.capture.Found() {
		select {
		case <-a.source.Wake():
			return
		case <-time.After(liveFirst):
		case <-ctx.Done():
			return
		}
	}
	a.log.Info("serving from the last good state", "services", st.Snapshot.Services.Len())
	a.apply(st.Snapshot)
	a.unsaved = false
}

func (a *agent) loop(ctx context.Context, st *source.State) {
	a.restore(ctx, st)
	wake := a.source.Wake()
	links, err := capture.Watch(ctx)
	if err != nil {
		a.log.Warn("cannot watch links; changes of the pod network are found every few seconds only", "err", err)
	}
	var strays <-chan time.Time
	if a.cfg.closeOnMove {
		a.strays = time.NewTimer(closeAfter)
		strays = a.strays.C
	}
	repair := time.NewTicker(repairEvery)
	defer repair.Stop()
	save := time.NewTimer(0)
	<-save.C
	armed := false
	for {
		if a.unsaved && !armed {
			save.Reset(a.keeper.Wait(time.Now()))
			armed = true
		}
		select {
		case <-wake:
			a.live = true
			snap, _ := a.source.Get()
			began := snap.TriggersSince(a.snap)
			a.apply(snap)
			a.metrics.programmed(began)
		case <-a.asked:
			a.used()
		case <-links:
			a.bridges()
		case <-strays:
			a.closeStrays()
		case <-repair.C:
			a.repair()
			a.closeStrays()
		case <-save.C:
			armed = false
			a.save()
		case <-ctx.Done():
			a.save()
			return
		}
	}
}

func (a *agent) apply(snap *topology.Snapshot) {
	start := time.Now()
	a.snap = snap
	out := *snap
	out.Partial = !a.live
	a.out.Publish(&out)
	a.view = a.viewer.See(snap)
	var changed render.Changed
	a.cat, changed = a.catalog.Next(a.view, !a.live)
	err := a.capture.Retract(a.view, !a.live)
	a.xds.Update(a.cat, changed)
	if err == nil {
		err = a.capture.Extend()
	}
	if err != nil {
		a.log.Error("could not write the capture rules; trying again", "err", err)
		a.metrics.syncFailures.Inc()
	} else {
		a.metrics.synced(start)
	}
	a.unsaved = true
	if a.strays != nil {
		a.strays.Reset(closeAfter)
	}
	a.publish(err)
}

// closeStrays closes connections that a move left behind, where that is wanted.
func (a *agent) closeStrays() {
	if a.strays == nil || !a.live {
		return
	}
	n, err := a.capture.CloseStale(func(frontend, endpoint netip.AddrPort) topology.Standing {
		entry, ok := a.cat.Entry(frontend.String())
		if !ok {
			return topology.Unrelated
		}
		service, _ := a.snap.Services.Get(entry.Service)
		sv, _ := a.view.Services.Get(entry.Service)
		return topology.StandingOf(service, sv, frontend, endpoint, topology.TCP)
	})
	if n > 0 {
		a.log.Info("closed connections to endpoints that are no longer this node's to use", "connections", n)
		a.metrics.closed.Add(float64(n))
	}
	if err != nil && a.strayErr == nil {
		a.log.Error("cannot close connections that a move left behind; trying again", "err", err)
	}
	a.strayErr = err
}

// asking notes what Envoy asked for; it is called from the streams.
func (a *agent) asking(clusters []string) {
	a.askedMu.Lock()
	a.names = append(a.names, clusters...)
	a.askedMu.Unlock()
	select {
	case a.asked <- struct{}{}:
	default:
	}
}

func (a *agent) used() {
	a.askedMu.Lock()
	list := a.names
	a.names = nil
	a.askedMu.Unlock()
	known := list[:0]
	for _, name := range list {
		if _, ok := a.cat.Entry(name); ok {
			known = append(known, name)
		}
	}
	if a.catalog.Used(known...) {
		var changed render.Changed
		a.cat, changed = a.catalog.Next(a.view, !a.live)
		a.xds.Update(a.cat, changed)
		a.unsaved = true
		a.publish(nil)
	}
}

func (a *agent) bridges() {
	changed, err := a.capture.RefreshBridges()
	switch {
	case err != nil:
		a.log.Error("could not follow the pod network's bridge", "err", err)
	case changed:
		a.log.Info("pod network changed", "pods", a.capture.Pods())
	}
}

func (a *agent) repair() {
	repaired, err := a.capture.Repair()
	switch {
	case err != nil:
		a.log.Error("could not check the capture rules", "err", err)
		a.metrics.syncFailures.Inc()
	case repaired:
		a.log.Warn("capture rules or sysctls were changed by somebody else and are back")
		a.metrics.repairs.Inc()
	}
	if a.state.failing() && a.snap != nil {
		a.apply(a.snap)
	}
}

// save keeps what this node needs to serve again without a cloud.
func (a *agent) save() {
	if !a.unsaved || !a.live {
		return
	}
	near := map[topology.ObjectKey]bool{}
	for _, name := range a.cat.Wildcard(render.ClusterType) {
		if entry, ok := a.cat.Entry(name); ok {
			near[entry.Service] = true
		}
	}
	st := &source.State{
		Snapshot: source.Subset(a.snap, a.cfg.node, func(key topology.ObjectKey) bool { return near[key] }),
		Used:     a.catalog.UsedNames(),
		PodCIDRs: a.cfg.capture.PodCIDRs,
	}
	before := a.keeper.Written
	err := a.keeper.Write(st, time.Now())
	a.metrics.stateBytes.Add(float64(a.keeper.Written - before))
	if err != nil {
		a.log.Error("could not keep the last good state; a restart without a cloud would serve an older one", "err", err)
		a.metrics.stateFailures.Inc()
		return
	}
	a.unsaved = false
}

// findings looks for what cannot live beside the capture, and decides.
func (a *config) findings(log *slog.Logger, found []capture.Finding) error {
	var errs []error
	for _, f := range found {
		switch {
		case f.Kind == capture.KubeProxy, f.Kind == capture.PolicyEngine && !a.allowBypass:
			errs = append(errs, errors.New(f.Text))
		default:
			log.Warn(f.Text, "kind", string(f.Kind))
		}
	}
	return errors.Join(errs...)
}
