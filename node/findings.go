package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/topology"
)

// inspectEvery is how often the node is looked at for what was not there at the start.
const inspectEvery = time.Minute

// findings are what breaks the capture on this node or is bypassed by it, as
// the last looks showed it: at the node, and at the cluster; what the state
// directory does not take; that this node has no Node; what watches do not say; what is there of a
// kube-proxy that is taken over from, and which of its addresses are waited for.
type findings struct {
	mu                                                         sync.Mutex
	node, cluster, disk, own, proxy, watches, healthz, metrics []capture.Finding
	xdsSocket, feedSocket, statusSocket                        []capture.Finding
}

// replaceNode, replaceCluster, replaceDisk, replaceOwn, replaceProxy and replaceWatches take the result of a look and return what is new.
func (f *findings) replaceNode(list []capture.Finding) []capture.Finding {
	return f.replace(&f.node, list)
}

// addNode keeps what the looks before showed of kinds that are not in the list, for it may be
// so still. Of a kind that is, the list is the newest word: texts of one kind may be another
// each time.
func (f *findings) addNode(list []capture.Finding) []capture.Finding {
	f.mu.Lock()
	known := slices.Clone(f.node)
	f.mu.Unlock()
	known = slices.DeleteFunc(known, func(old capture.Finding) bool {
		return slices.ContainsFunc(list, func(found capture.Finding) bool { return found.Kind == old.Kind })
	})
	return f.replaceNode(append(known, list...))
}

func (f *findings) replaceCluster(list []capture.Finding) []capture.Finding {
	return f.replace(&f.cluster, list)
}

func (f *findings) replaceDisk(list []capture.Finding) []capture.Finding {
	return f.replace(&f.disk, list)
}

func (f *findings) replaceOwn(list []capture.Finding) []capture.Finding {
	return f.replace(&f.own, list)
}

func (f *findings) replaceProxy(list []capture.Finding) []capture.Finding {
	return f.replace(&f.proxy, list)
}

func (f *findings) replaceWatches(list []capture.Finding) []capture.Finding {
	return f.replace(&f.watches, list)
}

func (f *findings) replace(known *[]capture.Finding, list []capture.Finding) (fresh []capture.Finding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, found := range list {
		if !slices.Contains(*known, found) {
			fresh = append(fresh, found)
		}
	}
	*known = slices.Clone(list)
	return fresh
}

func (f *findings) all() []capture.Finding {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Concat(f.node, f.cluster, f.disk, f.own, f.proxy, f.watches, f.healthz, f.metrics, f.xdsSocket, f.feedSocket, f.statusSocket)
}

var findingsDesc = prometheus.NewDesc("gridmesh_node_findings", "What on this node breaks the capture or is bypassed by it.", []string{"kind"}, nil)

// Describe and Collect count them by kind.
func (f *findings) Describe(to chan<- *prometheus.Desc) { to <- findingsDesc }

// Collect is as of one moment: no scrape finds a look half done.
func (f *findings) Collect(to chan<- prometheus.Metric) {
	kinds := map[capture.FindingKind]int{}
	for _, found := range f.all() {
		kinds[found.Kind]++
	}
	for kind, n := range kinds {
		to <- prometheus.MustNewConstMetric(findingsDesc, prometheus.GaugeValue, float64(n), string(kind))
	}
}

// inspect looks at the node before anything is written. What cannot live beside
// the capture keeps the agent from starting; what is returned is to be shown. What
// cannot be looked at is told, and looked at again in a minute: the guard comes first.
func (a *Agent) inspect(ctx context.Context) (fresh []capture.Finding, err error) {
	list, unread := a.inspectNode()
	guard, grave, unknown := a.checkGuard()
	if err := errors.Join(unread, unknown); err != nil {
		a.log.Warn("could not look at all of the node for what is in the way; starting, and looking again", obs.KeyErr, err)
	}
	var errs []error
	a.proxyFound, err = a.inspectProxy()
	errs = append(errs, err)
	for _, f := range list {
		if f.Kind == capture.KubeProxy || f.Kind == capture.PolicyEngine && a.cfg.RefusePolicies && a.cfg.Datapath == topology.DatapathNone {
			errs = append(errs, errors.New(f.Text))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, a.unfit(ctx, err)
	}
	if err := a.refuseGuard(ctx, grave, guard); err != nil {
		return nil, err
	}
	if len(a.undecided.ranges) > 0 {
		guard = nil
	}
	return a.found.replaceNode(slices.Concat(list, guard, notLookedAt(unread, unknown))), nil
}

// notLookedAt is the finding where a look at the node ended with an error: nobody knows
// that nothing is in the way. Lists that others tear all the time are none of it, for
// they have been read, if not as of one moment.
func notLookedAt(errs ...error) []capture.Finding {
	for _, err := range errs {
		if err != nil && !onlyTorn(err) {
			return []capture.Finding{{Kind: capture.Unseen, Text: "rules, links or routes of this node could not be read: nobody knows whether something answers ClusterIPs before gridmesh, or drops what it captures; the agent's log has the error"}}
		}
	}
	return nil
}

// inspectNode is what is in the way on the node. Where the kernel serves everything, it
// is no matter who enforces policies there. With both paths an engine may have
// policies of kinds of its own, which nobody but it knows: where the operator wants
// none to be bypassed, the kernel serves all beside it, and there is nothing to say.
func (a *Agent) inspectNode() ([]capture.Finding, error) {
	list, err := a.parts.Inspect()
	if a.parts.KubeProxy != nil { // who looks at that says more of it
		list = slices.DeleteFunc(slices.Clone(list), func(f capture.Finding) bool { return f.Kind == capture.KubeProxy })
	}
	if a.cfg.Datapath == topology.DatapathNone {
		return list, err
	}
	if a.cfg.Datapath == topology.DatapathKernel { // which needs no Envoy
		list = slices.DeleteFunc(slices.Clone(list), func(f capture.Finding) bool { return f.Kind == capture.EnvoyPorts })
	}
	if a.cfg.RefusePolicies {
		a.noteEngine(list, err)
	}
	if objects, _ := a.policies.Get(); a.cfg.Datapath == topology.DatapathKernel || a.cfg.RefusePolicies || objects.so {
		list = slices.DeleteFunc(slices.Clone(list), isEngine)
	}
	return list, err
}

// unfit tells why the agent does not start.
func (a *Agent) unfit(ctx context.Context, why error) error {
	if a.parts.Cluster != nil {
		a.parts.Cluster.WarnNow(ctx, eventRefuses, why.Error())
	}
	return fmt.Errorf("%w: %w", ErrUnfit, why)
}

// show tells of new findings.
func (a *Agent) show(fresh []capture.Finding) {
	for _, f := range fresh {
		a.log.Warn(f.Text, obs.KeyKind, string(f.Kind))
		a.warn(eventFinding, f.Text)
	}
}

// keepInspecting looks at the node again and again, and at once where something
// else is guarded: what serves is not taken out of service by what is found,
// whatever it is.
func (a *Agent) keepInspecting(ctx context.Context) error {
	failing := false
	for {
		select {
		case <-time.After(jitter(inspectEvery)):
		case <-a.inspection:
		case <-ctx.Done():
			return nil
		}
		a.dir.LockLate()
		list, err := a.inspectNode()
		guard, _, looked := a.checkGuard()
		seen := slices.Concat(list, guard)
		if err != nil || looked != nil {
			if failing { // not for once
				seen = append(seen, notLookedAt(err, looked)...)
			} else {
				a.log.Warn("could not look at the node for what is in the way; trying again", obs.KeyErr, errors.Join(err, looked))
			}
			failing = true
			a.show(a.found.addNode(seen))
			continue
		}
		failing = false
		a.show(a.found.replaceNode(seen))
	}
}
