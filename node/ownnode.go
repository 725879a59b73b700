package node

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/obs"
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

// judgeOwn notes what the loop itself has found, whether the cluster has this node, and
// whether that has its labels: without it is in no unit, and whatever is closed is refused
// here, which else looks as it should be.
func (l *loop) judgeOwn() {
	list := l.emptied.finding()
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

// followPodCIDRs keeps the pod CIDRs in line with the own Node.
func (a *Agent) followPodCIDRs(ctx context.Context) error {
	var read <-chan struct{} // of manifests; an API server is asked
	ask := func(_ context.Context, node string) ([]netip.Prefix, error) { return a.parts.PodCIDRs(node), nil }
	if a.parts.Cluster != nil {
		ask = a.parts.Cluster.PodCIDRs
	} else {
		read = a.parts.Source.Wake()
		defer a.parts.Source.Forget(read)
	}
	said := false
	for wait := time.Duration(0); a.mayAsk(ctx, wait, read); {
		list, err := ask(ctx, a.cfg.Node)
		wait = jitter(podCIDRsSoon)
		known, ok := a.podCIDRs.Get()
		switch {
		case err == nil && len(list) > 0:
			wait, said = jitter(podCIDRsEvery), false
			if !ok || !slices.Equal(list, known) {
				a.podCIDRs.Publish(list)
			}
		case !said && !ok && ctx.Err() == nil:
			said = true
			a.log.Warn("no pod CIDR is known: pods cannot be told from others and their addresses are not kept", obs.KeyErr, err)
		}
	}
	return nil
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
	l.pods = list
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
