package main

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

// start starts a cluster for a benchmark, and connects a client that writes as
// fast as it can.
func start(ctx context.Context, cfg cluster.Config) (*cluster.Cluster, kubernetes.Interface, error) {
	cfg.Say = say
	c, err := cluster.Up(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	rest := c.RESTConfig()
	rest.QPS, rest.ContentType = -1, "application/vnd.kubernetes.protobuf"
	kube, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return c, kube, nil
}

// oneUnit is a unit a of n nodes with routed pods.
func oneUnit(n int) netlab.Config {
	u := netlab.UnitConfig{Name: "a"}
	for range n {
		u.Nodes = append(u.Nodes, netlab.Routed)
	}
	return netlab.Config{Units: []netlab.UnitConfig{u}}
}
