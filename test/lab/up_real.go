package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

// upReal is up with real nodes. What serves Services then comes as on any
// cluster: gridmesh by deploy/.
func upReal(ctx context.Context, units, nodes int, proxy string) error {
	if err := checkSize(units, nodes); err != nil {
		return err
	}
	cfg := cluster.Config{Lab: labConfig(units, nodes), Say: say}
	if proxy == "kube-proxy" {
		cfg.Proxy = map[string]string{"": proxy}
	}
	for _, u := range cfg.Lab.Units {
		for i := range u.Nodes {
			u.Nodes[i] = netlab.Bridged
			cfg.Real = append(cfg.Real, fmt.Sprintf("%s-%d", u.Name, i+1))
		}
	}
	starting, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	c, err := cluster.Up(starting, cfg)
	if err != nil {
		return err
	}
	if proxy == "gridmesh" {
		start := time.Now()
		if err := c.Deploy(starting); err != nil {
			return err
		}
		say("deploy/ is applied and ready: %s", time.Since(start).Round(10*time.Millisecond))
	}
	fmt.Printf("up, with real kubelets: %s; images are gridmesh.test/app:1 and those of deploy/; stop with Ctrl-C\n", strings.Join(names(c), " "))
	return serve(ctx, c)
}
