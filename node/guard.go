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
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/node/guard"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

// checkGuard looks at what is guarded by now, and at this node.
func (a *Agent) checkGuard() (list []capture.Finding, grave []netip.Prefix, err error) {
	g := guard.Check{Flags: a.ranges, Pods: a.cfg.PodCIDRs}
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
	return append(list, a.notGuarded...), grave, err
}

// refuseGuard keeps an agent from starting where ranges of the flags would cut off the node, as
// found tells of each. What was guarded by a run before, whose rules are there, stays so. After a
// boot a node that has a last good state starts, for it would be dark: what becomes of them is for keepRanges.
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
			a.undecided = wrongRanges{grave, found}
			return nil
		}
	}
	var errs []error
	fresh := guard.New(grave, earlier.Guard)
	for i, p := range grave {
		if slices.Contains(fresh, p) {
			errs = append(errs, errors.New(found[i].Text))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return a.unfit(ctx, errors.Join(errs...))
}

// wrongRanges are those that would cut off the node, and what is to be said of them.
type wrongRanges struct {
	ranges []netip.Prefix
	found  []capture.Finding
}

// keepRanges decides by the last good state over ranges of the flags that would cut off a node that has booted, or
// its pods, or have the API server in them and had not: as beside the rules of a run before those are refused that it
// did not guard, all of the flags stay as they were, and it is told. Where a state is not read yet, or does not say how
// they were, the flags count, and are not noted as what was. Where there turns out to be none, as with a damaged one,
// this is a first start, which they refuse.
func (a *Agent) keepRanges(ctx context.Context, st *source.State, read bool, pods []netip.Prefix) error {
	over := guard.Within(a.ranges, pods)
	if st != nil && st.Ranges != nil {
		over = guard.Merge(over, guard.New(guard.Within(a.ranges, serversOf(st)), slices.Concat(*st.Ranges, st.Snapshot.ServiceCIDRs)))
	}
	if len(a.undecided.ranges) == 0 && len(over) == 0 {
		return nil
	}
	earlier, err := a.parts.Capture.Earlier()
	if err != nil || earlier.Rules {
		return err
	}
	found, grave, err := a.checkGuard()
	if err != nil { // the look before knew
		found, grave = a.undecided.found, a.undecided.ranges
	}
	if st == nil && read && len(found) > 0 {
		return a.unfit(ctx, errors.New(found[0].Text))
	}
	kept := st != nil && st.Ranges != nil && a.guardBefore(slices.Concat(grave, guard.New(over, grave)), *st.Ranges, st.Snapshot.ServiceCIDRs)
	if a.doubtful = !kept; kept {
		found, _, _ = a.checkGuard() // what could not be looked at was told
	}
	a.show(a.found.addNode(found))
	return nil
}

// noteRanges are the ranges of the flags that the next boot may take for right: nil where nobody knows.
func (l *loop) noteRanges() *[]netip.Prefix {
	switch {
	case !l.doubtful:
		return &l.ranges
	case l.restored != nil:
		return l.restored.Ranges
	}
	return nil
}

// guardBefore has the ranges of a run before in force, in place of all of the flags, where those that are wrong
// were not guarded then. It reports whether it did.
func (a *Agent) guardBefore(wrong, before, cluster []netip.Prefix) bool {
	fresh := guard.New(wrong, slices.Concat(before, cluster))
	if len(fresh) == 0 {
		return false
	}
	if err := a.parts.Capture.SetServiceCIDRs(before); err != nil {
		a.log.Error("what a run before guarded cannot be guarded; the ranges of --service-cidr are", obs.KeyCIDRs, before, obs.KeyErr, err)
		return false
	}
	a.ranges, a.notGuarded = before, []capture.Finding{guard.Refused(fresh, before)}
	return true
}

// refusePods keeps an agent from starting with pods of this node in a range of
// the flags, and without knowing them: rules of a run before go on.
func (a *Agent) refusePods(ctx context.Context, pods []netip.Prefix) error {
	for _, p := range pods {
		if i := slices.IndexFunc(a.ranges, p.Overlaps); i >= 0 {
			return a.unfit(ctx, fmt.Errorf("--service-cidr %s overlaps %s, the pods of this node; %s", a.ranges[i], p, guard.CureFlag))
		}
	}
	return nil
}

// refuseServers keeps an agent from starting with the API server in a new range of the flag, where it is known from a
// run before, whose rules go on: who gives it by name cannot be told so before.
func (a *Agent) refuseServers(ctx context.Context, st *source.State) error {
	if st == nil {
		return nil
	}
	earlier, err := a.parts.Capture.Earlier()
	if err != nil || !earlier.Rules {
		return err
	}
	known := serversOf(st)
	for _, p := range guard.New(guard.Within(a.ranges, known), earlier.Guard) {
		i := slices.IndexFunc(known, p.Overlaps)
		return a.unfit(ctx, fmt.Errorf("--service-cidr %s has %s in it, where the API server is; %s", p, known[i].Addr(), guard.CureFlag))
	}
	return nil
}

// guardChanges reports whether other ranges are guarded with the next snapshot.
func (l *loop) guardChanges(next *topology.Snapshot) bool {
	return l.snap == nil || !slices.Equal(l.snap.ServiceCIDRs, next.ServiceCIDRs)
}
