package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/realnode"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// upTimeout bounds the start of a cluster. A quiet machine needs 12 s.
const upTimeout = 2 * wait.Patience

func upCommand() *cobra.Command {
	var units, nodes int
	var proxy string
	var realNodes bool
	cmd := &cobra.Command{
		Use: "up", Short: "Start a cluster and stay in the foreground", Args: cobra.NoArgs,
		Example: "  lab up --units 3 --nodes 2\n  lab up --real --units 2 --nodes 1\n  lab kubectl get nodes -L unit\n  lab cut uplink a",
		RunE: sandboxed(func(ctx context.Context) error {
			if realNodes {
				return upReal(ctx, units, nodes, proxy)
			}
			return up(ctx, units, nodes, proxy)
		}),
	}
	cmd.Flags().IntVar(&units, "units", 2, "units, named a, b, c ...")
	cmd.Flags().IntVar(&nodes, "nodes", 2, "nodes a unit; the odd ones have routed pods, the even ones bridged")
	cmd.Flags().StringVar(&proxy, "proxy", "gridmesh", "what serves Services: gridmesh, kube-proxy or none")
	cmd.Flags().BoolVar(&realNodes, "real", false, "nodes with the real kubelet and containerd, all bridged; gridmesh comes by deploy/ (needs root, and "+realnode.Packages+")")
	return cmd
}

func labConfig(units, nodes int) netlab.Config {
	var cfg netlab.Config
	for i := range units {
		u := netlab.UnitConfig{Name: string(rune('a' + i))}
		for j := range nodes {
			u.Nodes = append(u.Nodes, []netlab.PodNetwork{netlab.Routed, netlab.Bridged}[j%2])
		}
		if i > 0 {
			cfg.Links = append(cfg.Links, [2]string{cfg.Units[i-1].Name, u.Name})
		}
		cfg.Units = append(cfg.Units, u)
	}
	return cfg
}

func up(ctx context.Context, units, nodes int, proxy string) error {
	if err := checkSize(units, nodes); err != nil {
		return err
	}
	if proxy == "none" {
		proxy = ""
	}
	starting, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	c, err := cluster.Up(starting, cluster.Config{Lab: labConfig(units, nodes), Proxy: map[string]string{"": proxy}, Say: say})
	if err != nil {
		return err
	}
	if proxy == "gridmesh" {
		kubeconfig, err := c.ControllerKubeconfig()
		if err != nil {
			return err
		}
		if _, err := c.StartController(kubeconfig); err != nil {
			return err
		}
	}
	fmt.Printf("up: %s; stop with Ctrl-C\n", strings.Join(names(c), " "))
	return serve(ctx, c)
}

func checkSize(units, nodes int) error {
	if units < 1 || units > 9 || nodes < 1 || nodes > 9 {
		return fmt.Errorf("--units %d --nodes %d: each must be between 1 and 9", units, nodes)
	}
	return nil
}

func names(c *cluster.Cluster) []string {
	var list []string
	for _, n := range c.Lab.Nodes() {
		list = append(list, n.Name)
	}
	return list
}

func say(format string, args ...any) { fmt.Printf("  "+format+"\n", args...) }
