package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/node/guard"
	"github.com/gridmesh/gridmesh/topology"
)

// checkGuard looks at what is guarded by now, and at this node.
func (a *Agent) checkGuard() (list []capture.Finding, grave []netip.Prefix, err error) {
	g := guard.Check{Flags: a.cfg.ServiceCIDRs, Pods: a.cfg.PodCIDRs}
	if snap, ok := a.snapshot.Get(); ok {
		g.Cluster, g.Snapshot = snap.ServiceCIDRs, snap
	}
	if pods, ok := a.podCIDRs.Get(); ok {
		g.Pods = pods
	}
	if a.parts.Networks != nil {
		g.Networks, err = a.parts.Networks(slices.Concat(g.Flags, g.Cluster))
	}
	list, grave = g.Findings()
	return list, grave, err
}

// refuseGuard keeps an agent from starting where ranges of the flags would cut off the node, as
// found tells of each. What was guarded by a run before, whose rules are there, stays so; after a
// boot a node that has a last good state starts, and says so: it would be dark.
func (a *Agent) refuseGuard(ctx context.Context, grave []netip.Prefix, found []capture.Finding) error {
	if len(grave) == 0 {
		return nil
	}
	earlier, err := a.parts.Capture.Earlier()
	if err != nil {
		return err
	}
	if !earlier.Rules {
		_, err = atomicfile.Within(a.patience.Left(), func() (os.FileInfo, error) { return os.Stat(a.cfg.statePath()) }, nil)
		if err == nil || errors.Is(err, atomicfile.ErrLate) { // of which nobody knows that there is none
			return nil
		}
	}
	var errs []error
	for i, p := range grave {
		if !slices.ContainsFunc(earlier.Guard, func(had netip.Prefix) bool { return had.Bits() <= p.Bits() && had.Overlaps(p) }) {
			errs = append(errs, errors.New(found[i].Text))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return a.unfit(ctx, errors.Join(errs...))
}

// refusePods keeps an agent from starting with pods of this node in a range of
// the flags, and without knowing them: rules of a run before go on.
func (a *Agent) refusePods(ctx context.Context, pods []netip.Prefix) error {
	for _, p := range pods {
		if i := slices.IndexFunc(a.cfg.ServiceCIDRs, p.Overlaps); i >= 0 {
			return a.unfit(ctx, fmt.Errorf("--service-cidr %s overlaps %s, the pods of this node; %s", a.cfg.ServiceCIDRs[i], p, guard.CureFlag))
		}
	}
	return nil
}

// guardChanges reports whether other ranges are guarded with the next snapshot.
func (l *loop) guardChanges(next *topology.Snapshot) bool {
	return l.snap == nil || !slices.Equal(l.snap.ServiceCIDRs, next.ServiceCIDRs)
}
