package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/obs"
)

// findings are what breaks the capture on this node or is bypassed by it.
type findings struct {
	mu   sync.Mutex
	list []capture.Finding
}

func (f *findings) add(list ...capture.Finding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, list...)
}

func (f *findings) all() []capture.Finding {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.list)
}

// inspect looks at the node. What cannot live beside the capture keeps the
// agent from starting; with the rest it starts, and says so.
func (a *Agent) inspect(ctx context.Context) error {
	list, err := a.parts.Inspect()
	if err != nil {
		return err
	}
	if err := a.note(ctx, list...); err != nil {
		return err
	}
	for _, f := range list {
		a.warn(eventFinding, f.Text)
	}
	return nil
}

const policiesFound = "the cluster has NetworkPolicies: traffic through a ClusterIP to a pod on the same node bypasses them (docs/limits.md); start with --allow-policy-bypass to accept that"

// checkPolicies refuses a cluster with NetworkPolicies, which would be
// bypassed. An API server that does not answer does not keep a node from
// starting.
func (a *Agent) checkPolicies(ctx context.Context) error {
	has, err := a.parts.Cluster.HasNetworkPolicy(ctx)
	if err != nil {
		a.log.Warn("could not ask for NetworkPolicies; if there are any they are bypassed on the same node (docs/limits.md)", obs.KeyErr, err)
		return nil
	}
	if !has {
		return nil
	}
	return a.note(ctx, capture.Finding{Kind: capture.PolicyEngine, Text: policiesFound})
}

// note shows findings, and returns ErrUnfit where one of them is not tolerated.
func (a *Agent) note(ctx context.Context, list ...capture.Finding) error {
	a.found.add(list...)
	var errs []error
	for _, f := range list {
		a.metrics.findings.WithLabelValues(string(f.Kind)).Inc()
		if a.tolerates(f.Kind) {
			a.log.Warn(f.Text, obs.KeyKind, string(f.Kind))
			continue
		}
		errs = append(errs, errors.New(f.Text))
	}
	err := errors.Join(errs...)
	if err == nil {
		return nil
	}
	if a.parts.Cluster != nil {
		a.parts.Cluster.WarnNow(ctx, eventRefuses, err.Error())
	}
	return fmt.Errorf("%w: %w", ErrUnfit, err)
}

// tolerates reports whether the agent runs beside a kind of finding.
func (a *Agent) tolerates(kind capture.FindingKind) bool {
	switch kind {
	case capture.KubeProxy:
		return false
	case capture.PolicyEngine:
		return a.cfg.AllowPolicyBypass
	}
	return true
}
