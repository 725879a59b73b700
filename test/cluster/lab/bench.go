package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/sandbox"
)

// Sizes of the datapath benchmark.
const (
	benchConns = 16
	benchFor   = 5 * time.Second
	benchPort  = 7000
)

func benchCommand() *cobra.Command {
	return &cobra.Command{
		Use: "bench", Short: "Measure a connection through gridmesh beside one through a bare Envoy and a direct one", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var result error
			sandbox.Run(func() int {
				if result = bench(cmd.Context()); result != nil {
					fmt.Println("lab:", result)
					return 1
				}
				return 0
			})
			return result
		},
	}
}

const benchState = `
apiVersion: v1
kind: Node
metadata: {name: a-1, labels: {unit: a}}
---
apiVersion: v1
kind: Node
metadata: {name: a-3, labels: {unit: a}}
---
apiVersion: v1
kind: Service
metadata: {name: app, annotations: {topologyKeys: '["unit"]'}}
spec: {clusterIP: 10.96.0.10, ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: app, labels: {kubernetes.io/service-name: app}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: [%q], nodeName: a-3}]
`

// bareEnvoy is the least that an Envoy needs to pass TCP on.
const bareEnvoy = `
static_resources:
  listeners:
  - address: {socket_address: {address: 0.0.0.0, port_value: %d}}
    filter_chains: [{filters: [{name: tcp, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy, stat_prefix: t, cluster: app}}]}]
  clusters:
  - {name: app, type: STATIC, connect_timeout: 1s, circuit_breakers: {thresholds: [{max_connections: 100000, max_pending_requests: 100000}]}, load_assignment: {cluster_name: app, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: %s, port_value: 8080}}}}]}]}}
`

// bench runs all ways in turn, three rounds, and prints the best of each.
func bench(ctx context.Context) error {
	printFacts()
	l, err := netlab.Build(netlab.Config{Units: []netlab.UnitConfig{{Name: "a", Nodes: []netlab.PodNetwork{netlab.Routed, netlab.Bridged, netlab.Routed}}}})
	if err != nil {
		return err
	}
	server, err := l.Node("a-3").AddPod("server")
	if err != nil {
		return err
	}
	client, err := l.Node("a-1").AddPod("client")
	if err != nil {
		return err
	}
	if _, err := edge.StartApp(server.NS, "server", 8080); err != nil {
		return err
	}
	if err := benchProxies(ctx, l, server.IP); err != nil {
		return err
	}
	ways := []*way{
		{name: "direct, no proxy", to: netip.AddrPortFrom(server.IP, 8080)},
		{name: "bare Envoy", to: netip.AddrPortFrom(l.Node("a-1").IP, benchPort)},
		{name: "gridmesh", to: netip.MustParseAddrPort("10.96.0.10:80")},
	}
	for round := range 3 {
		for _, w := range ways {
			fmt.Printf("round %d of 3: %s (%s)\n", round+1, w.name, 2*benchFor)
			if err := w.measure(ctx, client.NS); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	t := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "WAY\tREQUESTS/S\tOF BARE ENVOY\tNEW CONNECTIONS/S\tOF BARE ENVOY")
	bare := ways[1]
	for _, w := range ways {
		fmt.Fprintf(t, "%s\t%.0f\t%.0f %%\t%.0f\t%.0f %%\n", w.name, w.requests, 100*w.requests/bare.requests, w.connects, 100*w.connects/bare.connects)
	}
	return t.Flush()
}

func benchProxies(ctx context.Context, l *netlab.Lab, server netip.Addr) error {
	dir := filepath.Join(sandbox.Dir, "bench")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	state := filepath.Join(dir, "state.yaml")
	if err := os.WriteFile(state, fmt.Appendf(nil, benchState, server), 0o644); err != nil {
		return err
	}
	n, err := edge.NewNode(l.Node("a-1"), "--manifests", state)
	if err != nil {
		return err
	}
	if err := errors.Join(n.StartAgent(), n.StartEnvoy()); err != nil {
		return err
	}
	config := filepath.Join(dir, "bare.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, bareEnvoy, benchPort, server), 0o644); err != nil {
		return err
	}
	if _, err := edge.Start(l.Node("a-1").NS, "bare envoy", edge.Binary("envoy"), "--disable-hot-restart", "--concurrency", "2", "-l", "warning", "-c", config); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return n.WaitReady(ctx)
}

// way is one way to the server, with its best figures.
type way struct {
	name               string
	to                 netip.AddrPort
	requests, connects float64
}

func (w *way) measure(ctx context.Context, from *netlab.NS) error {
	requests, err := w.hammer(ctx, from, true)
	if err != nil {
		return err
	}
	connects, err := w.hammer(ctx, from, false)
	if err != nil {
		return err
	}
	w.requests, w.connects = max(w.requests, requests), max(w.connects, connects)
	return nil
}

// hammer counts round trips a second, over kept connections or a new one each.
func (w *way) hammer(ctx context.Context, from *netlab.NS, keep bool) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, benchFor)
	defer cancel()
	var done atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, benchConns)
	begin := time.Now()
	for i := range benchConns {
		wg.Go(func() {
			errs[i] = from.Do(func() error { return w.loop(ctx, keep, &done) })
		})
	}
	wg.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return 0, errs[i]
	}
	return float64(done.Load()) / time.Since(begin).Seconds(), nil
}

// loop runs on a thread inside the namespace.
func (w *way) loop(ctx context.Context, keep bool, done *atomic.Int64) error {
	for ctx.Err() == nil {
		c, err := edge.DialHere(w.to)
		if err != nil {
			return err
		}
		r := bufio.NewReader(c)
		for {
			if _, err := c.Write([]byte("who\n")); err != nil {
				return err
			}
			if _, err := r.ReadSlice('\n'); err != nil {
				return err
			}
			done.Add(1)
			if !keep || ctx.Err() != nil {
				break
			}
		}
		if err := c.Close(); err != nil {
			return err
		}
	}
	return nil
}
