package main

import (
	"context"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/gridmesh/gridmesh/admission/policy"
	"github.com/gridmesh/gridmesh/grid/plan"
	"github.com/gridmesh/gridmesh/health/cloud"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/kube/events"
	leading "github.com/gridmesh/gridmesh/kube/lead"
)

// policyManager is whose the fields of the admission policies are.
const policyManager = "gridmesh-policies"

// keepHealth adds what keeps nodes that their units vote well: the kind of its tables, and once
// that is served the admission policies and the tables.
func (r *replica) keepHealth(g *run.Group) error {
	if r.health.UnitKey == "" {
		return nil
	}
	policies, err := policy.Objects(r.election.Namespace)
	if err != nil {
		return err
	}
	cfg := r.health
	cfg.Log, cfg.Fault = r.log, func(err error) { r.unheard.Set("node health", err) }
	served := make(chan struct{})
	g.Add("CRD of node health", func(ctx context.Context) error { return r.keepTables(ctx, served) })
	g.Add("node health", func(ctx context.Context) error {
		told := events.ForObjects(r.client, plan.Manager, r.log)
		var kept run.Group
		kept.Add("events of Nodes", told.Run)
		kept.Add("shield", func(ctx context.Context) error {
			return cloud.Run(ctx, cfg, r.client, r.election.Namespace, told, r.shields)
		})
		if r.policies {
			o := &leading.Objects{Client: r.client, Version: admissionv1.SchemeGroupVersion, Objects: policies, Manager: policyManager, Same: plan.Same}
			kept.Add("admission policies", func(ctx context.Context) error { return cloud.Policies(ctx, o, r.log, r.shields) })
		}
		select {
		case <-served:
			return kept.Run(ctx)
		case <-ctx.Done():
			return nil
		}
	})
	return nil
}

// keepTables installs the kind of the tables and keeps it. Where that fails it closes served all
// the same: grids go on, and somebody else may bring the kind.
func (r *replica) keepTables(ctx context.Context, served chan<- struct{}) error {
	if !r.installCRDs {
		close(served)
		<-ctx.Done()
		return nil
	}
	crds := &leading.CRDs{Client: r.client, Manifests: [][]byte{policy.NodeTables()}, Manager: plan.Manager, Same: plan.Same, Log: r.log}
	if !r.install(ctx, crds, "node health", sync.OnceFunc(func() { close(served) })) {
		return nil
	}
	return crds.Keep(ctx)
}
