package main

import (
	"context"

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
// that was tried the admission policies and the tables.
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
	tried := make(chan struct{})
	tables := [][]byte{policy.NodeTables()}
	g.Add("CRD of node health", func(ctx context.Context) error { return r.keepKinds(ctx, tables, "node health", tried) })
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
		case <-tried:
			return kept.Run(ctx)
		case <-ctx.Done():
			return nil
		}
	})
	return nil
}
