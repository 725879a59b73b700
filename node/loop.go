package node

import (
	"context"
	"net/netip"
	"time"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds/render"
)

// repairEvery is how often the kernel is looked at for what others removed,
// and how long a failed write waits for its next attempt.
const repairEvery = 5 * time.Second

// loop gathers, decides and acts. All of it is owned by one goroutine: that of
// Agent.Run up to start's end, then that of run. So is the Capture.
type loop struct {
	*Agent  // what does not change, or locks itself
	capture Capture

	restored *source.State  // the last good state; nil for none
	pods     []netip.Prefix // this node's pod CIDRs
	viewer   *topology.Viewer
	catalogs *render.Cataloger
	problems problemIndex
	saver    saver
	stale    staleTimer

	live    bool // the snapshot comes from the source, not from disk
	snap    *topology.Snapshot
	view    *topology.View
	catalog *render.Catalog
	failure error // of the last write to the kernel; nil where it is in line
}

func newLoop(a *Agent, st *source.State, pods []netip.Prefix) *loop {
	return &loop{
		Agent: a, capture: a.parts.Capture, restored: st, pods: pods, catalog: &render.Catalog{},
		viewer:   topology.NewViewer(a.cfg.Node, a.cfg.Topology),
		catalogs: render.NewCataloger(a.cfg.Render, a.cfg.PreloadMax),
		saver:    newSaver(a.cfg.statePath()),
	}
}

// run serves until ctx ends.
func (l *loop) run(ctx context.Context) error {
	l.restore(ctx)
	wake := l.parts.Source.Wake()
	defer l.parts.Source.Forget(wake)
	links, err := l.parts.WatchLinks(ctx)
	if err != nil {
		l.log.Warn("cannot watch links; changes of the pod network are found every few seconds only", obs.KeyErr, err)
	}
	if l.cfg.CloseOnMove {
		l.stale.start()
		defer l.stale.stop()
	}
	repair := time.NewTicker(repairEvery)
	defer repair.Stop()
	defer l.saver.stop()
	for {
		select {
		case <-wake:
			l.gather()
		case <-l.demand.wake:
			l.preloadDemanded()
		case <-links:
			l.refreshBridges()
			l.repair()
		case <-l.stale.due():
			l.closeStale()
		case <-repair.C:
			l.refreshBridges()
			l.repair()
			l.closeStale()
		case <-l.saver.due():
			l.save()
		case <-ctx.Done():
			l.save()
			return nil
		}
	}
}

// gather takes the source's newest snapshot.
func (l *loop) gather() {
	snap, ok := l.parts.Source.Get()
	if !ok {
		return
	}
	var before *topology.Snapshot // the source's last one
	if l.live {
		before = l.snap
	}
	l.live = true
	l.apply(snap)
	l.metrics.programmed(snap.TriggersSince(before))
}

// apply decides what a snapshot means for this node, and acts.
func (l *loop) apply(snap *topology.Snapshot) {
	start := time.Now()
	l.snap = snap
	l.snapshot.Publish(snap)
	l.view = l.viewer.See(snap)
	var changed render.Changed
	l.catalog, changed = l.catalogs.Next(l.view, !l.live)
	if l.failure = l.act(changed); l.failure != nil {
		l.log.Error("could not write the capture rules; trying again", obs.KeyErr, l.failure)
		l.metrics.syncFailures.Inc()
	} else {
		l.metrics.synced(start)
	}
	l.changed()
	l.stale.reset()
}

// act brings the kernel and Envoy in line with the view: what is refused must
// be refused before Envoy forgets it, and Envoy must know what it is to be
// handed. Where the kernel does not do the first, it is handed nothing new,
// and repair tries all of it again.
func (l *loop) act(changed render.Changed) error {
	err := l.capture.Retract(l.view, !l.live)
	l.xds.Update(l.catalog, changed)
	if err != nil {
		return err
	}
	return l.capture.Extend()
}

// preloadDemanded makes what Envoy asked for by name a part of what it holds
// after a restart of its own.
func (l *loop) preloadDemanded() {
	var exist []string
	for _, name := range l.demand.take() {
		if _, ok := l.catalog.Entry(name); ok {
			exist = append(exist, name)
		}
	}
	if !l.catalogs.Used(exist...) {
		return
	}
	var changed render.Changed
	l.catalog, changed = l.catalogs.Next(l.view, !l.live)
	l.xds.Update(l.catalog, changed)
	l.changed()
}

// changed shows the loop's state and has it saved.
func (l *loop) changed() {
	l.publish()
	if l.live {
		l.saver.mark()
	}
}

func (l *loop) refreshBridges() {
	changed, err := l.capture.RefreshBridges()
	switch {
	case err != nil:
		l.log.Error("could not follow the pod network's bridge", obs.KeyErr, err)
	case changed:
		l.log.Info("pod network changed", obs.KeyPods, l.capture.Pods())
	}
}

// repair puts back what others changed, and writes again what failed.
func (l *loop) repair() {
	repaired, err := l.capture.Repair()
	switch {
	case err != nil:
		l.log.Error("could not check the capture rules", obs.KeyErr, err)
		l.metrics.syncFailures.Inc()
	case repaired:
		l.log.Warn("capture rules or sysctls were changed by somebody else and are back")
		l.metrics.repairs.Inc()
	}
	if l.failure != nil {
		l.apply(l.snap)
	}
}
