package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/convert"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/quiet"
	"github.com/gridmesh/gridmesh/node/guard"
	"github.com/gridmesh/gridmesh/topology"
)

// How often the own Node is asked for its pod CIDRs: while none are known, and
// then, for a Node that is deleted and registers again may get others. What the
// snapshot shows of that, and an outage that ends, is a reason to ask at once.
const (
	podCIDRsSoon  = 10 * time.Second
	podCIDRsEvery = 5 * time.Minute
)

// noOwnNode is the finding where the cluster has no Node of this node's name.
const noOwnNode capture.FindingKind = "own-node"

// noUnit is the finding where it has no label that Services use and most other Nodes have,
// nor one of another unit.
const noUnit capture.FindingKind = "no-unit"

// noPods is the finding where nobody says which addresses this node's pods have.
const noPods capture.FindingKind = "no-pod-cidr"

// podlessFor is how long a Node that is new may be without.
const podlessFor = 30 * time.Second

// podless is since when the own Node says of no pods which addresses they have; zero where it does.
type podless struct{ since time.Time }

// finding takes whether it is so, and whether the Node was ever asked for with an answer, and
// is what is to be told.
func (p *podless) finding(now time.Time, is, answered bool) []capture.Finding {
	switch {
	case !is:
		p.since = time.Time{}
	case p.since.IsZero():
		p.since = now
	case now.Sub(p.since) >= podlessFor:
		why, cure := "the own Node has no podCIDRs", "see that the controller manager gives its Node some (--allocate-node-cidrs); docs/install.md has what an IPAM of the network's own comes to"
		if !answered {
			why, cure = "the own Node cannot be asked for its podCIDRs", "the agent's log has the error: see that it may get nodes (docs/security.md)"
		}
		return []capture.Finding{{Kind: noPods, Text: why + ", and --pod-cidr gives none: this node's pods are told from others by nothing, endpoints see them as the node, and on a bridge they may not reach Services by Envoy; " + cure}}
	}
	return nil
}

// judgeOwn notes what the loop itself has found, whether the cluster has this node, and
// whether that has its labels: without it is in no unit, and whatever is closed is refused
// here, which else looks as it should be.
func (l *loop) judgeOwn() {
	list := append(l.emptied.finding(), l.cidrs.finding()...)
	switch {
	case !l.live || l.view == nil:
	case !l.view.Viewpoint.Known:
		list = append(list, capture.Finding{Kind: noOwnNode, Text: fmt.Sprintf("the cluster has no Node %s: this node is in no unit and reaches no Service that is closed to a unit; "+
			"see that --node-name is the name of its Node, and that its kubelet is registered", l.cfg.Node)})
	case len(l.units.Lost) > 0:
		list = append(list, capture.Finding{Kind: noUnit, Text: "this node " + l.units.Fault(l.cfg.Node)})
	}
	l.show(l.found.replaceOwn(list))
}

// wakeOwnNode has the own Node asked for at once.
func (a *Agent) wakeOwnNode() { fill(a.ownNode) }

// asksPods reports whether this node's pod CIDRs are those of its Node.
func (a *Agent) asksPods() bool {
	return len(a.cfg.PodCIDRs) == 0 && (a.parts.Cluster != nil || a.parts.PodCIDRs != nil)
}

// followOwnNode keeps the pod CIDRs, and the addresses by which the node is known, in line with
// the own Node.
func (a *Agent) followOwnNode(ctx context.Context) error {
	var read <-chan struct{} // of manifests; an API server is asked
	ask := func(_ context.Context, node string) (convert.OwnNode, error) {
		return convert.OwnNode{PodCIDRs: a.parts.PodCIDRs(node)}, nil
	}
	if a.parts.Cluster != nil {
		ask = a.parts.Cluster.OwnNode
	} else {
		read = a.parts.Source.Wake()
		defer a.parts.Source.Forget(read)
	}
	var said untold
	for wait := time.Duration(0); a.mayAsk(ctx, wait, read); {
		own, err := ask(ctx, a.cfg.Node)
		wait = jitter(podCIDRsSoon)
		if err == nil {
			a.answeredOwn.Store(true)
			if was, _ := a.nodeIPs.Get(); !slices.Equal(own.IPs, was) {
				a.nodeIPs.Publish(own.IPs)
			}
		}
		list := own.PodCIDRs
		known, ok := a.podCIDRs.Get()
		switch {
		case err == nil && !a.asksPods():
			wait = jitter(podCIDRsEvery)
		case err == nil && len(list) > 0:
			wait, said = jitter(podCIDRsEvery), said.told()
			if !ok || !slices.Equal(list, known) {
				a.podCIDRs.Publish(list)
			}
		case ctx.Err() == nil && a.asksPods():
			said.say(a, ok, err)
		}
	}
	return nil
}

// setIPs takes the addresses that the own Node has.
func (l *loop) setIPs() {
	if list, ok := l.nodeIPs.Get(); ok {
		l.capture.SayIPs(list)
		if len(list) > 0 && !slices.Equal(list, l.nodeSaid) {
			l.nodeSaid = list
			l.changed()
		}
		l.rejudgeRanges()
		l.repair()
	}
}

// noteIPs has it kept by which addresses the node is known, where it is by others, and judges by them.
func (l *loop) noteIPs() {
	if is := l.capture.IPs(); !is.Equal(l.ips) {
		l.ips = is
		l.log.Info("the node is known by other addresses: node ports are served at those of them that it has", obs.KeyIPs, slices.Concat(is.Said, is.Homes))
		l.changed()
		l.rejudgeRanges()
	}
}

// untold is what was said of an own Node that does not say which pod CIDRs it has.
type untold struct {
	none  bool         // that none is known
	kept  quiet.Change // that those are kept which are
	lines quiet.Line
	last  time.Time // when it said them; zero where it was a run before that it told
}

var errNoPodCIDRs = errors.New("there is none in its Node")

// told is how it goes on after the Node has said them.
func (u untold) told() untold { return untold{lines: u.lines, last: time.Now()} }

// say tells why the Node does not, once, and how old those are that are known, if any.
func (u *untold) say(a *Agent, known bool, err error) {
	if err == nil {
		err = errNoPodCIDRs
	}
	switch {
	case known && !u.kept.To(err), !known && u.none:
		return
	case !known:
		u.none = true
		a.log.Warn("no pod CIDR is known: pods cannot be told from others and their addresses are not kept", obs.KeyErr, err)
		return
	}
	args, last, text := []any{obs.KeyErr, err}, u.last, "the own Node does not say any more which pod CIDRs it has: those that it had are in force"
	if last.IsZero() {
		text = "the own Node does not say which pod CIDRs it has: those that a run before knew are in force"
		if before := a.known.Load(); before != nil { // its last contact
			last = *before
		}
	}
	if !last.IsZero() {
		args = append(args, obs.KeyAway, max(0, time.Since(last)).Round(time.Second))
	}
	u.lines.Say(a.log.Warn, text, args...)
}

// mayAsk waits until the own Node is to be asked for: after a time, or, of manifests, when
// they were read. It reports false where ctx ended.
func (a *Agent) mayAsk(ctx context.Context, wait time.Duration, read <-chan struct{}) bool {
	var later <-chan time.Time
	if read == nil {
		later = time.After(wait)
	}
	select {
	case <-later:
	case <-read:
	case <-a.ownNode:
	case <-ctx.Done():
		return false
	}
	return true
}

// setPods takes the pod CIDRs that the own Node has.
func (l *loop) setPods() {
	list, ok := l.podCIDRs.Get()
	if !ok || slices.Equal(list, l.pods) {
		return
	}
	fill(l.inspection)
	if err := l.capture.SetPodCIDRs(list); err != nil {
		l.said.pods.Say(l.log.Error, "could not write the pod CIDRs; trying again", obs.KeyCIDRs, list, obs.KeyErr, err)
		l.metrics.syncFailures.Inc()
		l.broken = err
		l.pace.hurry()
		l.publish()
		return
	}
	if l.pods = list; l.view != nil && !l.unwritten {
		l.updated = time.Now()
	}
	base := l.cidrs.base
	// Where no range was believed yet, a state that comes late has those of before.
	l.cidrs.known = len(list) > 0 && (l.cidrs.known || len(base) > 0 && len(guard.Within(base, list)) == 0)
	l.rejudgeRanges()
	l.tune()
	l.log.Info("pod CIDRs are known", obs.KeyCIDRs, list, obs.KeyPods, l.capture.Pods())
	l.changed()
}

// ownNodeChanged reports whether the next snapshot has another own Node.
func (l *loop) ownNodeChanged(next *topology.Snapshot) bool {
	if l.snap == nil {
		return false
	}
	was, _ := l.snap.Nodes.Get(l.cfg.Node)
	is, _ := next.Nodes.Get(l.cfg.Node)
	return was != is
}
