package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gridmesh/gridmesh/health"
	"github.com/gridmesh/gridmesh/health/check"
	"github.com/gridmesh/gridmesh/health/peer"
	"github.com/gridmesh/gridmesh/internal/latest"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/kube"
)

// daemon votes until ctx ends.
func daemon(ctx context.Context, c *config, socket string, log *slog.Logger) error {
	kube.LogTo(log)
	client, err := kube.Connect(c.kubeconfig, "gridmesh-health/"+obs.Version(), kube.NodeRate())
	if err != nil {
		return err
	}
	registry := run.NewRegistry()
	checker, err := check.New(c.check, log, registry)
	if err != nil {
		return err
	}
	var exchange *peer.Peer
	onUnit := func(u health.Unit, live bool) { exchange.SetUnit(u.ForPeers(c.node, live)) } // once d runs
	d, err := health.New(health.Config{Vote: c.vote, Log: log, OnUnit: onUnit}, checker, health.Annotations{Client: client, Mirror: c.mirror}, health.NewMetrics(registry))
	if err != nil {
		return err
	}
	exchange, err = peer.New(c.peer, d, log, registry)
	if err != nil {
		return err
	}
	d.SetExchange(exchange)
	var g run.Group
	defer g.Close()
	if err := listen(&g, c, d, registry, log); err != nil {
		return err
	}
	l, err := run.ListenTCP(c.bind, log)
	if err != nil {
		return fmt.Errorf("--bind-address: %w", err)
	}
	g.AddListener("exchange", l, exchange.Run)
	g.Add("vote", d.Run)
	serveStatus(&g, socket, d, log)
	g.AddTask("dead nodes", func(ctx context.Context) error { return health.Tell(ctx, d, c.dead, log) })
	groupings := c.groupings(&g, client, exchange.SetKeys, registry, log)
	units := make(chan string, 1)
	g.AddTask("unit", func(ctx context.Context) error {
		return health.FollowUnit(ctx, client, c.node, groupings, c.state, func(u health.Unit) {
			d.SetUnit(ctx, u)
			latest.Put(units, u.Name)
		}, log)
	})
	g.AddTask("uplink", func(ctx context.Context) error { return followUplink(ctx, client, d, log) })
	g.AddTask("lease", func(ctx context.Context) error {
		return health.HoldLease(ctx, client, c.namespace, c.node, units, d.May(), d.Quits(), func(until time.Time) { d.SetLease(ctx, until) }, log)
	})
	return g.Run(ctx)
}

// listen opens what others ask for health and metrics.
func listen(g *run.Group, c *config, d *health.Daemon, registry *prometheus.Registry, log *slog.Logger) error {
	var checks run.Checks
	checks.Live("vote", d.Live)
	if err := g.AddHTTP("health", c.healthz, checks.Handler(), log); err != nil {
		return err
	}
	return g.AddHTTP("metrics", c.metrics, run.MetricsMux(registry), log)
}

// followUplink tells whether this node reaches the API server.
func followUplink(ctx context.Context, client *kube.Client, d *health.Daemon, log *slog.Logger) error {
	return health.FollowUplink(ctx, client, func(up bool, why error) {
		if up {
			log.Info("this node reaches the API server")
		} else {
			log.Warn("this node does not reach the API server", obs.KeyErr, client.Blame(why))
		}
		d.SetUplink(ctx, up)
	})
}

// keyFiles are files with keys.
type keyFiles struct {
	paths []string
	tell  func(keys ...[]byte) error
	log   *slog.Logger
	was   [][]byte
	said  string
}

const (
	keysEvery = 10 * time.Second
	mostKey   = 4096
)

// follow tells of the keys, whenever they change. What cannot be read leaves those in force
// that were.
func (k *keyFiles) follow(ctx context.Context) error {
	for first := true; ; first = false {
		keys, err := k.read()
		if err == nil && (first || !same(keys, k.was)) {
			if err = k.tell(keys...); err == nil {
				k.was = keys
			}
		}
		if text := fmt.Sprint(err); err != nil && text != k.said {
			k.log.Error("the keys of node health cannot be used; those in force stay", obs.KeyErr, err)
			k.said = text
		} else if err == nil {
			k.said = ""
		}
		if !run.Pause(ctx, keysEvery) {
			return nil
		}
	}
}

func (k *keyFiles) read() (keys [][]byte, err error) {
	for i, path := range k.paths {
		data, err := os.ReadFile(path)
		if i > 0 && errors.Is(err, os.ErrNotExist) {
			continue // there is a second one while the key is changed
		}
		if err != nil {
			return nil, fmt.Errorf("--key-file: %w", err)
		}
		if data = bytes.TrimSpace(data); len(data) == 0 || len(data) > mostKey {
			return nil, fmt.Errorf("--key-file: %s has %d bytes: 1 to %d", path, len(data), mostKey)
		}
		keys = append(keys, data)
	}
	return keys, nil
}

func same(a, b [][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}
