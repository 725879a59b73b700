package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

// Run takes the node into service until ctx ends, and returns when every
// goroutine has ended. ErrUnfit says that this node is not to be served.
func (a *Agent) Run(ctx context.Context) error {
	unlock, err := Lock(a.cfg.StateDir)
	if err != nil {
		return err
	}
	defer unlock()
	if err := a.inspect(ctx); err != nil {
		return err
	}
	g := &run.Group{}
	if err := a.open(g); err != nil {
		return errors.Join(err, g.Close())
	}
	unlockNetwork, err := a.lockNetwork()
	if err != nil {
		return errors.Join(err, g.Close())
	}
	defer unlockNetwork()
	l, err := a.start(ctx)
	if err != nil {
		return errors.Join(err, g.Close())
	}
	for _, m := range a.members(l) {
		g.Add(m.name, m.run)
	}
	if err := g.Run(ctx); err != nil {
		return err
	}
	a.log.Info("stopped; the rules stay in force until gridmesh-agent cleanup")
	return nil
}

// lockNetwork makes this agent the only one that writes the rules of its
// network. It comes last before the first write: what else is in the way has
// more to say.
func (a *Agent) lockNetwork() (unlock func(), err error) {
	if a.parts.LockNetwork == nil {
		return func() {}, nil
	}
	return a.parts.LockNetwork()
}

// Lock keeps a second agent, and a cleanup beside a running one, from a node.
func Lock(stateDir string) (unlock func(), err error) {
	unlock, err = run.Lock(Config{StateDir: stateDir}.lockPath())
	if errors.Is(err, run.ErrInUse) {
		return nil, fmt.Errorf("%w: another gridmesh-agent runs with --state-dir %s: %w", ErrUnfit, stateDir, err)
	}
	return unlock, err
}

// start puts the guard in force. Nothing is asked that an API server may keep
// waiting, but where the operator wants to refuse, and then behind the guard.
func (a *Agent) start(ctx context.Context) (*loop, error) {
	st, err := source.ReadState(a.cfg.statePath())
	if err != nil {
		a.log.Error("starting without the last good state", obs.KeyErr, err)
	}
	pods := a.cfg.PodCIDRs
	if a.parts.Cluster != nil && len(pods) == 0 && st != nil && len(st.PodCIDRs) > 0 {
		pods = st.PodCIDRs // until the Node says otherwise
		a.podCIDRs.Publish(pods)
	}
	if err := a.guard(pods, st); err != nil {
		return nil, err
	}
	if err := a.refusePolicies(ctx); err != nil {
		return nil, errors.Join(err, a.parts.Capture.Remove()) // as it was found
	}
	return newLoop(a, st, pods), nil
}

// guard puts the rules in force, so that nothing leaves while the rest of the
// start waits.
func (a *Agent) guard(pods []netip.Prefix, st *source.State) error {
	if err := a.parts.Capture.SetPodCIDRs(pods); err != nil {
		return err
	}
	var known []netip.Prefix
	if st != nil {
		known = st.Snapshot.ServiceCIDRs
	}
	list := mergePrefixes(a.cfg.ServiceCIDRs, known)
	if err := a.parts.Capture.Install(list); err != nil {
		return err
	}
	a.tune()
	a.log.Info("guard in force", obs.KeyCIDRs, list, obs.KeyPods, a.parts.Capture.Pods())
	return nil
}

func (a *Agent) tune() {
	if err := a.parts.Capture.Tune(); err != nil {
		a.log.Warn("a pod that dials an endpoint itself, from a port that Envoy used in its name within a minute, will wait a second", obs.KeyErr, err)
	}
}

// mergePrefixes returns the prefixes of all lists, sorted, each once. It
// leaves the lists as they are.
func mergePrefixes(lists ...[]netip.Prefix) []netip.Prefix {
	all := slices.Concat(lists...)
	slices.SortFunc(all, topology.ComparePrefix)
	return slices.Compact(all)
}
