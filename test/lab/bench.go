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
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/sandbox"
)

// Sizes of the datapath benchmark.
const (
	benchConns  = 16
	benchFor    = 2 * time.Second
	benchRounds = 9
	benchPort   = 7000
)

func benchCommand() *cobra.Command {
	return &cobra.Command{
		Use: "bench", Short: "Measure connections through gridmesh beside a bare Envoy, kube-proxy, and none", Args: cobra.NoArgs,
		Example: "  lab bench",
		RunE:    sandboxed(bench),
	}
}

const benchService = `
apiVersion: v1
kind: Service
metadata: {name: bench, annotations: {topologyKeys: '["unit"]'}}
spec: {clusterIP: 10.96.0.77, ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: bench, labels: {kubernetes.io/service-name: bench}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: [%q], nodeName: a-2}]
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

// bench runs all ways in turn, round by round, and prints medians; a ratio is
// the median of the rounds' ratios, for a machine has better and worse
// moments. The server is a pod of a-2; gridmesh and a bare Envoy run on a-1, kube-proxy on
// a-3, gridmesh with its kernel path alone on a-4.
func bench(ctx context.Context) error {
	printFacts()
	c, _, err := start(ctx, cluster.Config{
		Lab: oneUnit(4), Proxy: map[string]string{"a-1": "gridmesh", "a-3": "kube-proxy", "a-4": "gridmesh"},
		AgentFlagsOf: map[string][]string{"a-1": {"--datapath=envoy"}, "a-4": {"--datapath=kernel"}},
	})
	if err != nil {
		return err
	}
	ways, err := benchWays(ctx, c)
	if err != nil {
		return err
	}
	for round := range benchRounds {
		fmt.Printf("round %d of %d (%s)\n", round+1, benchRounds, 2*benchFor*time.Duration(len(ways)))
		for _, w := range ways {
			if err := w.measure(ctx); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	bare, theirs, kernel := ways[1], ways[3], ways[4]
	for _, what := range []struct {
		name string
		of   func(*way) figures
	}{{"REQUESTS", func(w *way) figures { return w.requests }}, {"NEW CONNECTIONS", func(w *way) figures { return w.connects }}} {
		t := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
		fmt.Fprintln(t, what.name+"\tA SECOND\tOF BARE ENVOY\tP50\tP99\tENVOY CPU EACH")
		for _, w := range ways {
			fmt.Fprintf(t, "%s\t%s\n", w.name, what.of(w).row(what.of(bare)))
		}
		if err := t.Flush(); err != nil {
			return err
		}
		fmt.Printf("the kernel path beside kube-proxy: %s\n\n", what.of(kernel).ratio(what.of(theirs)))
	}
	return nil
}

func benchWays(ctx context.Context, c *cluster.Cluster) ([]*way, error) {
	if err := c.Apply(shop); err != nil {
		return nil, err
	}
	pods, err := c.WaitPods(ctx, "default", "app=shop", len(c.Nodes))
	if err != nil {
		return nil, err
	}
	from, ip := map[string]*netlab.NS{}, map[string]string{}
	for i := range pods {
		node := pods[i].Spec.NodeName
		if from[node], err = netlab.OpenNS("pod-" + string(pods[i].UID)); err != nil {
			return nil, err
		}
		ip[node] = pods[i].Status.PodIP
	}
	if err := c.Apply(fmt.Sprintf(benchService, ip["a-2"])); err != nil {
		return nil, err
	}
	server := netip.MustParseAddr(ip["a-2"])
	config := filepath.Join(sandbox.Dir, "bare.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, bareEnvoy, benchPort, server), 0o644); err != nil {
		return nil, err
	}
	n := c.Nodes["a-1"]
	bare, err := edge.Start(n.NS, "bare envoy", edge.Binary("envoy"), "--disable-hot-restart", "--concurrency", "2", "-l", "warning", "-c", config)
	if err != nil {
		return nil, err
	}
	service := netip.MustParseAddrPort("10.96.0.77:80")
	ways := []*way{
		{name: "direct, no proxy", from: from["a-1"], to: netip.AddrPortFrom(server, 8080)},
		{name: "bare Envoy", from: from["a-1"], to: netip.AddrPortFrom(n.IP, benchPort), envoy: bare},
		{name: "gridmesh", from: from["a-1"], to: service, envoy: n.Envoy},
		{name: "kube-proxy nftables", from: from["a-3"], to: service},
		{name: "gridmesh, kernel path", from: from["a-4"], to: service},
	}
	for _, n := range c.Lab.Nodes() {
		// Thousands of connections a second fill the table of the kernel.
		if err := n.NS.Sysctl(map[string]string{"net/netfilter/nf_conntrack_tcp_timeout_time_wait": "1"}); err != nil {
			return nil, err
		}
	}
	for _, ns := range []*netlab.NS{from["a-1"], from["a-3"], from["a-4"], c.Nodes["a-1"].NS, c.Nodes["a-3"].NS, c.Nodes["a-4"].NS} {
		// And to one port they use up a client's ports.
		if err := ns.Sysctl(map[string]string{"net/ipv4/ip_local_port_range": "1024 65535", "net/ipv4/tcp_tw_reuse": "1"}); err != nil {
			return nil, err
		}
	}
	for _, w := range ways {
		waiting, cancel := context.WithTimeout(ctx, 30*time.Second)
		err := untilAnswered(waiting, w.from, w.to, "shop-")
		cancel()
		if err != nil {
			return nil, fmt.Errorf("%s does not serve: %w", w.name, err)
		}
	}
	return ways, nil
}

// way is one way to the server, with its figures.
type way struct {
	name               string
	from               *netlab.NS
	to                 netip.AddrPort
	envoy              *edge.Process // nil where there is none
	requests, connects figures       // a round each
}

// figure is a rate, what Envoy spent on each, and how long each took.
type figure struct {
	rate          float64
	cpu, p50, p99 time.Duration
}

type figures []figure

func (f figures) row(bare figures) string {
	var rates, spent, half, most []float64
	for _, one := range f {
		rates, spent = append(rates, one.rate), append(spent, float64(one.cpu))
		half, most = append(half, float64(one.p50)), append(most, float64(one.p99))
	}
	cpu := "-"
	if each := time.Duration(median(spent)); each > 0 {
		cpu = each.Round(100 * time.Nanosecond).String()
	}
	return fmt.Sprintf("%.0f\t%s\t%s\t%s\t%s", median(rates), f.ratio(bare), brief(median(half)), brief(median(most)), cpu)
}

// ratio is that of the rates, round by round: the median, and from which to which.
func (f figures) ratio(of figures) string {
	var ratios []float64
	for i := range f {
		ratios = append(ratios, f[i].rate/of[i].rate)
	}
	return fmt.Sprintf("%.0f %% (%.0f to %.0f)", 100*median(ratios), 100*slices.Min(ratios), 100*slices.Max(ratios))
}

func brief(ns float64) string { return time.Duration(ns).Round(time.Microsecond).String() }

func (w *way) measure(ctx context.Context) error {
	requests, err := w.load(ctx, true)
	if err != nil {
		return err
	}
	connects, err := w.load(ctx, false)
	if err != nil {
		return err
	}
	w.requests, w.connects = append(w.requests, requests), append(w.connects, connects)
	return nil
}

// cpuTime is what a process has used so far.
func cpuTime(p *edge.Process) time.Duration {
	if p == nil {
		return 0
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		return 0
	}
	// proc(5): the name in parentheses may hold spaces; utime and stime are the
	// 12th and 13th after it, in ticks of 10 ms.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	var ticks int64
	for _, f := range fields[11:13] {
		n, _ := strconv.ParseInt(f, 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// load counts round trips a second, over kept connections or a new one each.
func (w *way) load(ctx context.Context, keep bool) (figure, error) {
	ctx, cancel := context.WithTimeout(ctx, benchFor)
	defer cancel()
	var wg sync.WaitGroup
	errs, each := make([]error, benchConns), make([][]time.Duration, benchConns)
	begin, spent := time.Now(), cpuTime(w.envoy)
	for i := range benchConns {
		wg.Go(func() {
			errs[i] = w.from.Do(func() (err error) {
				each[i], err = w.loop(ctx, keep)
				return err
			})
		})
	}
	wg.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return figure{}, errs[i]
	}
	took, used := time.Since(begin), cpuTime(w.envoy)-spent
	all := slices.Concat(each...)
	if len(all) == 0 {
		return figure{}, errors.New("nobody answered")
	}
	return figure{float64(len(all)) / took.Seconds(), used / time.Duration(len(all)), percentile(all, 0.5), percentile(all, 0.99)}, nil
}

// loop runs on a thread inside the namespace, and returns how long each took.
func (w *way) loop(ctx context.Context, keep bool) (took []time.Duration, err error) {
	for ctx.Err() == nil {
		begin := time.Now()
		c, err := edge.DialHere(w.to)
		if err != nil {
			return nil, err
		}
		r := bufio.NewReader(c)
		for {
			if _, err := c.Write([]byte("who\n")); err != nil {
				return nil, err
			}
			if _, err := r.ReadSlice('\n'); err != nil {
				return nil, err
			}
			now := time.Now()
			took, begin = append(took, now.Sub(begin)), now
			if !keep || ctx.Err() != nil {
				break
			}
		}
		if err := c.Close(); err != nil {
			return nil, err
		}
	}
	return took, nil
}
