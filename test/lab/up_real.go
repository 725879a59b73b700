package main

import (
	"context"
	"fmt"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

// upReal is up with real nodes. What serves Services then comes as on any
// cluster: gridmesh by deploy/.
func upReal(ctx context.Context, s *server, units, nodes int, proxy string) error {
	cfg := cluster.Config{Lab: labConfig(units, nodes), Say: say}
	if proxy == kubeProxy {
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
	if proxy == gridmesh {
		start := time.Now()
		if err := c.Deploy(starting); err != nil {
			return err
		}
		say("deploy/ is applied and ready: %s", time.Since(start).Round(10*time.Millisecond))
		if _, err := c.StartDNS(); err != nil {
			return err
		}
	}
	say("images are gridmesh.test/app:1 and those of deploy/")
	announce(c, ", with real kubelets", proxy == gridmesh)
	return s.serve(ctx, c, nil)
}
