package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
	"github.com/gridmesh/gridmesh/test/conformance/images"
)

// up starts a cluster of one unit whose Services the proxy serves, and whose
// names resolve. An engine is there before the proxy, as on a node that has one.
func (o *options) up(ctx context.Context) (*cluster.Cluster, engines, error) {
	bin := filepath.Join(edge.Root(), "bin")
	list, err := images.List(bin, filepath.Join(bin, "debian"))
	if err != nil {
		return nil, nil, fmt.Errorf("images: %w", err)
	}
	kube.LogTo(slog.New(slog.DiscardHandler)) // before any client runs: it is global
	unit := netlab.UnitConfig{Name: "a"}
	cfg := cluster.Config{RealImages: list, NodeGrace: 50 * time.Second, Say: say}
	for i := range o.nodes {
		unit.Nodes = append(unit.Nodes, netlab.Bridged)
		cfg.Real = append(cfg.Real, fmt.Sprintf("%s-%d", unit.Name, i+1))
	}
	cfg.Lab.Units = []netlab.UnitConfig{unit}
	if o.proxy == "kube-proxy" {
		cfg.Proxy = map[string]string{"": o.proxy}
	}
	starting, cancel := context.WithTimeout(ctx, 2*wait.Patience)
	defer cancel()
	c, err := cluster.Up(starting, cfg)
	if err != nil {
		return nil, nil, err
	}
	enforcing, err := o.with().start(starting, c)
	if err != nil {
		return nil, nil, err
	}
	_, err = c.StartDNS()
	if err := errors.Join(labelZones(c), serveHostPorts(c), err); err != nil {
		return nil, nil, err
	}
	if way, is := strings.CutPrefix(o.proxy, ours); is {
		err = c.Deploy(starting, agentArgs(way)...)
	} else {
		err = startNodeDNS(c)
	}
	if err != nil {
		return nil, nil, err
	}
	return c, enforcing, waitNames(starting, c)
}

// ours begins the names of gridmesh's columns.
const ours = "gridmesh"

// agentArgs are those that make an agent serve as a column's name says, for what
// is in it behind ours: nothing, or "-" and a --datapath.
func agentArgs(way string) []string {
	if way == "" {
		return nil
	}
	return []string{"--datapath=" + strings.TrimPrefix(way, "-")}
}

// labelZones spreads nodes over three zones, as specs of traffic distribution
// want it.
func labelZones(c *cluster.Cluster) error {
	for i, name := range slices.Sorted(maps.Keys(c.Nodes)) {
		if out, err := c.Kubectl("label", "node", name, fmt.Sprintf("topology.kubernetes.io/zone=zone-%d", i%3)); err != nil {
			return fmt.Errorf("label node %s: %w: %s", name, err, out)
		}
	}
	return nil
}

// serveHostPorts adds the plugin for ports of pods on their nodes to the
// nodes' networks: kubelets leave them to it, whatever serves Services.
func serveHostPorts(c *cluster.Cluster) error {
	var errs []error
	for _, n := range c.Nodes {
		paths, err := filepath.Glob(filepath.Join(n.Dir, "cni", "*.conflist"))
		if err == nil && len(paths) != 1 {
			err = fmt.Errorf("node %s: networks %q, want one", n.Name, paths)
		}
		for _, path := range paths {
			errs = append(errs, addPlugin(path, map[string]any{"type": "portmap", "snat": true, "capabilities": map[string]bool{"portMappings": true}}))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// addPlugin puts a plugin behind those of a network, for pods that come.
func addPlugin(path string, plugin map[string]any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var network map[string]any
	if err := json.Unmarshal(data, &network); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	list, is := network["plugins"].([]any)
	if !is {
		return fmt.Errorf("%s has no list of plugins", path)
	}
	network["plugins"] = append(list, plugin)
	if data, err = json.MarshalIndent(network, "", "  "); err != nil {
		return err
	}
	return atomicfile.WriteShared(path, data)
}
