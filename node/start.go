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
	l, err := a.start(ctx)
	if err != nil {
		return err
	}
	g, err := a.serve(l)
	if err != nil {
		return errors.Join(err, g.Close())
	}
	if err := g.Run(ctx); err != nil {
		return err
	}
	a.log.Info("stopped; the rules stay in force until gridmesh-agent cleanup")
	return nil
}

// Lock keeps a second agent, and a cleanup beside a running one, from a node.
func Lock(stateDir string) (unlock func(), err error) {
	unlock, err = run.Lock(Config{StateDir: stateDir}.lockPath())
	if errors.Is(err, run.ErrInUse) {
		return nil, fmt.Errorf("%w: another gridmesh-agent runs with --state-dir %s: %w", ErrUnfit, stateDir, err)
	}
	return unlock, err
}

// start does what has an order: the node is looked at, then guarded, and only
// then is anything asked that an API server may keep waiting.
func (a *Agent) start(ctx context.Context) (*loop, error) {
	if err := a.inspect(ctx); err != nil {
		return nil, err
	}
	st, err := source.ReadState(a.cfg.statePath())
	if err != nil {
		a.log.Error("starting without the last good state", obs.KeyErr, err)
	}
	pods := a.cfg.PodCIDRs
	if a.parts.Cluster != nil && len(pods) == 0 && st != nil {
		pods = st.PodCIDRs // a Node's podCIDRs never change
	}
	if err := a.guard(pods, st); err != nil {
		return nil, err
	}
	if a.parts.Cluster != nil {
		if pods, err = a.askCluster(ctx, pods, st); err != nil {
			return nil, a.withdraw(err)
		}
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

// withdraw leaves a node that turns out not to be fit as it was found. Where
// rules were in force before this start, they stay.
func (a *Agent) withdraw(why error) error {
	if !errors.Is(why, ErrUnfit) || a.parts.Capture.Found() {
		return why
	}
	return errors.Join(why, a.parts.Capture.Remove())
}

func (a *Agent) tune() {
	if err := a.parts.Capture.Tune(); err != nil {
		a.log.Warn("a pod that dials an endpoint itself, from a port that Envoy used in its name within a minute, will wait a second", obs.KeyErr, err)
	}
}

// askCluster asks the API server what a start without a last good state needs
// to know. One that does not answer keeps no node from starting.
func (a *Agent) askCluster(ctx context.Context, pods []netip.Prefix, st *source.State) ([]netip.Prefix, error) {
	if len(pods) == 0 {
		var err error
		if pods, err = a.askPodCIDRs(ctx); err != nil {
			return nil, err
		}
	}
	if st != nil {
		return pods, nil // serve asks for policies beside the loop
	}
	return pods, a.checkPolicies(ctx)
}

func (a *Agent) askPodCIDRs(ctx context.Context) ([]netip.Prefix, error) {
	list, err := a.parts.Cluster.PodCIDRs(ctx, a.cfg.Node)
	if len(list) == 0 {
		a.log.Warn("no pod CIDR is known: pods cannot be told from others and their addresses are not kept", obs.KeyErr, err)
		return nil, nil
	}
	if err := a.parts.Capture.SetPodCIDRs(list); err != nil {
		return nil, err
	}
	a.tune()
	a.log.Info("pod CIDRs are known", obs.KeyCIDRs, list, obs.KeyPods, a.parts.Capture.Pods())
	return list, nil
}

// mergePrefixes returns the prefixes of all lists, sorted, each once. It
// leaves the lists as they are.
func mergePrefixes(lists ...[]netip.Prefix) []netip.Prefix {
	all := slices.Concat(lists...)
	slices.SortFunc(all, topology.ComparePrefix)
	return slices.Compact(all)
}
