package datapath

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/sandbox"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// world is the lab that every test of this package shares: two units, each
// with a routed (-1) and a bridged (-2) node, and b with one that is bridged and
// keeps its bridge netfilter (-3); one agent and one Envoy a node.
type world struct {
	lab   *netlab.Lab
	nodes []*edge.Node
	state *manifests
}

var w *world

func TestMain(m *testing.M) {
	sandbox.Run(func() int {
		var err error
		if w, err = build(); err != nil {
			fmt.Fprintln(os.Stderr, "build the lab:", err)
			return 1
		}
		return m.Run()
	})
}

func build() (*world, error) {
	w := &world{}
	kinds := []netlab.PodNetwork{netlab.Routed, netlab.Bridged}
	var err error
	w.lab, err = netlab.Build(netlab.Config{
		Units: []netlab.UnitConfig{{Name: "a", Nodes: kinds}, {Name: "b", Nodes: append(kinds, netlab.Bridged)}},
		Links: [][2]string{{"a", "b"}},
	})
	if err != nil {
		return nil, err
	}
	w.state = newManifests(sandbox.Dir + "/manifests")
	for _, n := range w.lab.Nodes() {
		w.state.node(n.Name, map[string]string{"unit": n.Unit.Name, "kubernetes.io/hostname": n.Name})
	}
	if err := w.state.write(); err != nil {
		return nil, err
	}
	for _, n := range w.lab.Nodes() {
		flags := []string{"--manifests", w.state.dir, "--service-cidr", netlab.ServiceCIDR4.String() + "," + netlab.ServiceCIDR6.String(), "--datapath", "envoy"}
		if n.Name == "b-3" {
			flags = append(flags, "--bridge-netfilter", "keep")
		}
		e, err := edge.NewNode(n, flags...)
		if err != nil {
			return nil, err
		}
		if err := e.StartAgent(); err != nil {
			return nil, err
		}
		if err := e.StartEnvoy(); err != nil {
			return nil, err
		}
		w.nodes = append(w.nodes, e)
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	defer cancel()
	for _, e := range w.nodes {
		if err := e.WaitReady(ctx); err != nil {
			return nil, err
		}
	}
	return w, nil
}
