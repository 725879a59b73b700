package node

import (
	"context"
	"errors"
	"net/netip"
	"runtime/debug"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/quiet"
	"github.com/gridmesh/gridmesh/node/guard"
	"github.com/gridmesh/gridmesh/node/outage"
	"github.com/gridmesh/gridmesh/node/preload"
	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/node/statedir"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds/render"
)

// loop gathers, decides and acts. All of it is owned by one goroutine: that of
// Agent.Run up to start's end, then that of run. So is the Capture.
type loop struct {
	*Agent  // what does not change, or locks itself
	capture Capture

	restored  *source.State  // the last good state; nil for none
	unread    unread         // what the disk has not given yet
	pods      []netip.Prefix // this node's pod CIDRs
	ips       capture.IPs    // by which it is known
	nodeSaid  []netip.Addr   // by which the own Node says that it is known, or did to a run before
	servers   []answerer     // from where the API server answered, runs before too
	viewer    *topology.Viewer
	catalogs  *render.Cataloger
	problems  report.ProblemIndex
	served    report.PathIndex
	unreached report.Unreached
	labels    report.LabelIndex
	guarded   guard.Endpoints
	saver     statedir.Saver
	recorder  statedir.Recorder
	stale     staleTimer
	pace      pace
	uplink    outage.Uplink
	begun     outage.Clocks // of the start
	clocksAt  outage.Clocks // of the last look
	healing   healing
	used      preload.Used

	balancers balancers

	live      bool               // the snapshot comes from the source, not from disk
	raw       *topology.Snapshot // the source's newest; nil before the first
	podless   podless            // what the own Node does not say of its pods
	emptied   emptied            // the newest is not believed
	counted   *topology.Snapshot // the newest of which no change is to be counted any more
	snap      *topology.Snapshot // what is in force of it
	dead      []string           // nodes that count as voted dead, sorted; the view and others hear of it (dead.go)
	view      *topology.View
	unwritten bool            // the kernel has not taken the view yet
	updated   time.Time       // when what is served last changed
	units     report.UnitKeys // of the view
	catalog   *render.Catalog
	inLine    bool // the kernel hands over to Envoy what the catalog has, and nothing else
	said      lines
	owed      owed
	cidrs     cidrs
	failure   error       // of the last write to the kernel; nil where it is in line
	broken    error       // of the last look at what others removed
	handing   handing     // of waiting for Envoy
	envoys    absence     // what is known of Envoy, where there is a kernel path
	proxy     beside      // what is known of kube-proxy's rules, where it is taken over from
	policed   *bool       // what counts: there are NetworkPolicies; nil where nobody has said, or there is no kernel path
	damped    damper      // of that
	eager     quiet.Limit // looks while something fails

	links <-chan struct{} // of who watches the kernel; nil where nobody does
	blind bool            // so it is, and that is said
}

// lines is what the loop may have to say again and again.
type lines struct {
	write, order, repair, anew, bridges, network, pods, save, blind, watched, absent, unasked, policed, proxied, slept, dead, unheard, slow quiet.Line

	unrecorded bool // that an outage could not be noted
	unread     bool // that the disk gives nothing
}

func newLoop(a *Agent, st *source.State, pods []netip.Prefix) *loop {
	l := &loop{
		Agent: a, capture: a.parts.Capture, restored: st, pods: pods, ips: a.parts.Capture.IPs(), catalog: &render.Catalog{},
		catalogs: render.NewCataloger(a.cfg.Render, a.cfg.PreloadMax),
		saver:    statedir.NewSaver(a.cfg.statePath()),
		used:     preload.NewUsed(), balancers: newBalancers(a.cfg),
	}
	l.damped = damper{first: policiesFirst, most: policiesMost, calm: policiesCalm}
	if st != nil {
		l.servers, l.nodeSaid = serversKept(st), st.NodeIPs
	}
	l.lookAnew()
	l.takePolicies()
	return l
}

// run serves until ctx ends.
func (l *loop) run(ctx context.Context) error {
	l.pace.start()
	defer l.stopTimers()
	l.catalogs.IPv6(l.capture.IPv6())
	l.restore(ctx)
	wake := l.parts.Source.Wake()
	defer l.parts.Source.Forget(wake)
	pods, ips, looks := l.podCIDRs.Wake(), l.nodeIPs.Wake(), l.envoy.Wake()
	defer l.forget(pods, ips, looks)
	l.watchLinks(ctx)
	defer l.awaitWatch()
	if l.cfg.CloseOnMove {
		l.stale.start()
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		l.pulse.beat(time.Now())
		select {
		case <-wake:
			l.gather()
		case <-l.demand.Wake:
			l.preloadDemanded()
		case _, open := <-l.links:
			l.linked(ctx, open)
		case <-pods:
			l.setPods()
		case <-ips:
			l.setIPs()
		case <-looks:
			l.noteUse()
		case <-l.paths:
			l.takePaths()
		case <-look.C:
			l.tick(time.Now())
		case <-l.healing.due():
			l.judgeAgain()
		case <-l.reports.wake:
			l.takeReports()
		case <-l.stale.due():
			l.closeStale()
		case <-l.pace.timer.C:
			l.watchLinks(ctx)
			l.paced()
		case <-l.saver.Due():
			l.save()
		case w := <-l.saver.Done:
			l.saved(w)
		case n := <-l.recorder.Done:
			l.recorded(n)
		case read := <-l.unread.state.Late():
			l.takeState(read)
		case read := <-l.unread.notes.Late():
			l.takeNotes(read)
		case <-ctx.Done():
			l.finish()
			return nil
		}
	}
}

func (l *loop) forget(pods, ips, looks <-chan struct{}) {
	l.podCIDRs.Forget(pods)
	l.nodeIPs.Forget(ips)
	l.envoy.Forget(looks)
}

func (l *loop) stopTimers() {
	l.pace.timer.Stop()
	l.saver.Stop()
	l.healing.stop()
	l.stale.stop()
}

// watchLinks has the kernel watched, where nobody does.
func (l *loop) watchLinks(ctx context.Context) {
	if l.links != nil || ctx.Err() != nil {
		return
	}
	links, err := l.parts.WatchLinks(ctx)
	switch {
	case err != nil:
		l.unwatched(obs.KeyErr, err)
		return
	case l.blind:
		l.said.watched.Say(l.log.Info, "the kernel is watched again")
	}
	l.links, l.blind = links, false
}

// unwatched says that nobody watches the kernel, where it was not said.
func (l *loop) unwatched(args ...any) {
	if !l.blind {
		l.said.blind.Say(l.log.Warn, "cannot watch the kernel; what others change there is found every few seconds only, until it can be watched again", args...)
	}
	l.blind = true
}

// awaitWatch waits for the end of who watches, once ctx has ended.
func (l *loop) awaitWatch() {
	if l.links == nil {
		return
	}
	for range l.links {
	}
}

// gather takes the source's newest snapshot.
func (l *loop) gather() {
	snap, ok := l.parts.Source.Get()
	if !ok || l.disbelieves(snap) {
		return
	}
	first := !l.live
	l.live, l.raw = true, snap
	l.look()
	l.apply(l.judge(snap))
	if first {
		debug.FreeOSMemory() // what the first lists were decoded from
	}
}

// apply decides what a snapshot means for this node, and acts.
func (l *loop) apply(snap *topology.Snapshot) {
	start := time.Now()
	snap = l.believeRanges(snap)
	if l.ownNodeChanged(snap) {
		l.wakeOwnNode()
	}
	guarded := l.guardChanges(snap)
	l.snap = snap
	seen := l.withDead(snap)
	l.snapshot.Publish(seen)
	if guarded { // only now, for what looks reads what was published
		fill(l.inspection)
	}
	l.see(seen)
	l.labels.Next(snap)
	l.units = l.labels.Of(l.view)
	l.judgeOwn()
	if l.failure = l.act(l.nextCatalog()); l.failure != nil {
		l.said.write.Say(l.log.Error, "could not write the capture rules; trying again", obs.KeyErr, l.failure)
		l.metrics.syncFailures.Inc()
		l.pace.hurry()
	} else {
		l.metrics.synced(start)
		l.written(time.Now())
	}
	l.answerBalancers()
	l.countProgrammed()
	l.changed()
	l.stale.reset()
}

// act brings the kernel and Envoy in line with the view: what is refused must
// be refused before Envoy forgets it, and Envoy must know what it is to be
// handed. Where the kernel does not do the first, it is handed nothing new,
// and repair tries all of it again. With two paths that may be for the kernel path
// alone: what Envoy serves more does not wait for it.
func (l *loop) act(changed render.Changed) error {
	err := l.capture.Retract(l.view, !l.live)
	l.tellEnvoy(changed, err == nil)
	if err != nil && l.cfg.Datapath == topology.DatapathNone {
		return err
	}
	l.awaitEnvoy()
	err = errors.Join(err, l.capture.Extend())
	l.releaseEnvoy(err == nil)
	return err
}

func (l *loop) refreshBridges() {
	changed, err := l.capture.RefreshBridges()
	switch {
	case err != nil:
		l.said.bridges.Say(l.log.Error, "could not follow the pod network's bridge", obs.KeyErr, err)
	case changed:
		l.said.network.Say(l.log.Info, "pod network changed", obs.KeyPods, l.capture.Pods())
	}
	drained := l.catalogs.At(time.Now())
	if l.catalogs.IPv6(l.capture.IPv6()) || drained {
		l.catalogAgain()
	}
}
