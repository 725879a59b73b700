package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
)

// changes measures how long a change of an endpoint takes to reach new
// connections, beside the real kube-proxy (nftables) on the same changes.
//
// Node a-1 runs gridmesh, a-3 kube-proxy, and on a-2 the pods are. Every node
// uses the same 50 Services all the time.
type changes struct {
	services, paired, toggles, quiet, rate int
	subscribed                             bool
	datapath                               string

	c     *cluster.Cluster
	kube  kubernetes.Interface
	shop  []corev1.Pod // the canary's
	shelf []corev1.Pod // of the Services in use
	to    netip.AddrPort
	inUse []netip.AddrPort
	at    int // the pod that the canary leads to
	clock
}

// datapaths are gridmesh's; the first is measured where nobody says which.
var datapaths = []string{"envoy", "auto", "kernel"}

const (
	endpointsEach = 10
	servicesInUse = 50
	useEvery      = 10 * time.Millisecond
)

// shop is the benchmark's application: a pod a node, and a closed Service.
const shop = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: shop}
spec:
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: shop, image: gridmesh.test/app, ports: [{name: main, containerPort: 8080}], readinessProbe: {tcpSocket: {port: main}, periodSeconds: 1}}
---
apiVersion: v1
kind: Service
metadata: {name: shop, annotations: {topologyKeys: '["unit"]'}}
spec: {selector: {app: shop}, ports: [{port: 80, targetPort: main}]}
`

// shelf is what the Services in use lead to.
const shelf = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: shelf}
spec:
  replicas: 10
  selector: {matchLabels: {app: shelf}}
  template:
    metadata: {labels: {app: shelf}}
    spec:
      nodeName: a-2
      containers:
      - {name: shelf, image: gridmesh.test/app, ports: [{name: main, containerPort: 8080}], readinessProbe: {tcpSocket: {port: main}, periodSeconds: 1}}
`

func changesCommand() *cobra.Command {
	b := &changes{}
	cmd := &cobra.Command{
		Use: "bench-changes", Short: "Measure how fast changes reach connections, beside kube-proxy on the same changes", Args: cobra.NoArgs,
		Example: "  lab bench-changes --services 500 --paired 6",
		RunE: checked(func() error {
			if !slices.Contains(datapaths, b.datapath) {
				return usagef("--datapath %s: must be one of %s", b.datapath, strings.Join(datapaths, ", "))
			}
			return errors.Join(atLeast(servicesInUse, "services", b.services), atLeast(1, "paired", b.paired, "toggles", b.toggles, "quiet", b.quiet, "rate", b.rate))
		}, b.run),
	}
	cmd.Flags().IntVar(&b.services, "services", 2000, "Services of 10 endpoints each")
	cmd.Flags().IntVar(&b.paired, "paired", 12, "changes of the canary Service that are timed on both")
	cmd.Flags().IntVar(&b.toggles, "toggles", 200, "changes of the canary Service that are timed on gridmesh alone, afterwards")
	cmd.Flags().IntVar(&b.quiet, "quiet", 100, "changes of the canary Service that are timed last, when nothing else changes")
	cmd.Flags().IntVar(&b.rate, "rate", 100, "slice changes a second of other Services meanwhile, a tenth of them on Services in use")
	cmd.Flags().BoolVar(&b.subscribed, "subscribed", false, "let Envoy hold every Service, and not only those in use")
	cmd.Flags().StringVar(&b.datapath, "datapath", datapaths[0], "gridmesh's: "+strings.Join(datapaths, ", "))
	return cmd
}

func (b *changes) run(ctx context.Context) error {
	printFacts()
	b.begin = time.Now()
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	if err := b.up(ctx); err != nil {
		return err
	}
	b.say("writing %d Services of %d endpoints", b.services, endpointsEach)
	if err := b.fill(ctx); err != nil {
		return err
	}
	if err := b.canary(ctx, 0, true); err != nil {
		return err
	}
	ours, theirs := b.c.Nodes["a-1"], b.c.Nodes["a-3"]
	first, all, err := b.cold(ctx, ours, theirs)
	if err != nil {
		return err
	}
	times, err := b.underLoad(ctx, ours, theirs)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "PROXY\tFIRST SERVED\tALL SERVED\tCHANGE P50\tP99\tMAX\tMEMORY")
	fmt.Fprintf(t, "gridmesh --datapath %s\t%s\t%s\t%s\tagent %s, Envoy %s\n", b.datapath, round(first[0]), round(all[0]), spread(times.paired[0]), times.agent, times.envoy)
	fmt.Fprintf(t, "kube-proxy nftables\t%s\t%s\t%s\t%s\n", round(first[1]), round(all[1]), spread(times.paired[1]), times.kubeProxy)
	fmt.Fprintf(t, "ratio\t1/%.0f\t1/%.0f\t1/%.0f\t1/%.0f\n", float64(first[1])/float64(first[0]), float64(all[1])/float64(all[0]), ratio(times.paired, 0.5), ratio(times.paired, 0.99))
	fmt.Fprintf(t, "gridmesh alone, %d changes\t\t\t%s\n", len(times.alone), spread(times.alone))
	fmt.Fprintf(t, "the same, nothing else changes\t\t\t%s\n", spread(times.quiet))
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Printf("connections to Services in use: %d, %d failed; state file: %.1f MiB an hour\n", times.used, times.failed, times.stateBytes*3600/times.took.Seconds()/(1<<20))
	return nil
}

// cold starts both proxies, one after the other, and times the first Service
// and all Services in use.
func (b *changes) cold(ctx context.Context, ours, theirs *cluster.Node) (first, all [2]time.Duration, err error) {
	if _, err := b.c.AgentKubeconfig(); err != nil { // its RBAC is no part of a cold start
		return first, all, err
	}
	b.say("cold start beside %d Services", b.services)
	for i, n := range []*cluster.Node{ours, theirs} {
		kind := []string{"gridmesh", "kube-proxy"}[i]
		start := time.Now()
		if err := n.StartProxy(kind); err != nil {
			return first, all, err
		}
		if err := untilAnswered(ctx, n.NS, b.to, b.shop[0].Name); err != nil {
			return first, all, err
		}
		first[i] = time.Since(start)
		for _, to := range b.inUse {
			if err := untilAnswered(ctx, n.NS, to, "shelf-"); err != nil {
				return first, all, err
			}
		}
		all[i] = time.Since(start)
		b.say("%s serves after %s, %d Services in use after %s", kind, round(first[i]), len(b.inUse), round(all[i]))
	}
	return first, all, nil
}

// measured is what happened under load.
type measured struct {
	paired                  [][]time.Duration
	alone, quiet            []time.Duration
	used, failed            int64
	agent, envoy, kubeProxy string
	stateBytes              float64
	took                    time.Duration
}

func (b *changes) underLoad(ctx context.Context, ours, theirs *cluster.Node) (m measured, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	churning, calm := context.WithCancel(ctx)
	defer calm()
	go b.churn(churning)
	var used, failed atomic.Int64
	for _, n := range []*cluster.Node{ours, theirs} {
		go b.use(ctx, n.NS, &used, &failed)
	}
	began := time.Now()
	b.say("%d changes of the canary on both, with %d changes a second of others", b.paired, b.rate)
	if m.paired, err = b.toggle(ctx, b.paired, ours, theirs); err != nil {
		return m, err
	}
	m.kubeProxy = memory(theirs.KubeProxy)
	theirs.KubeProxy.Kill()
	b.say("%d changes of the canary on gridmesh alone", b.toggles)
	alone, err := b.toggle(ctx, b.toggles, ours)
	if err != nil {
		return m, err
	}
	m.alone, m.used, m.failed, m.took = alone[0], used.Load(), failed.Load(), time.Since(began)
	m.agent, m.envoy = memory(ours.Agent), memory(ours.Envoy)
	text, err := ours.Metrics()
	if err != nil {
		return m, err
	}
	for line := range strings.Lines(text) {
		_, _ = fmt.Sscanf(line, "gridmesh_state_written_bytes_total %g", &m.stateBytes)
	}
	calm()
	b.say("%d changes of the canary when nothing else changes", b.quiet)
	quiet, err := b.toggle(ctx, b.quiet, ours)
	if err != nil {
		return m, err
	}
	m.quiet = quiet[0]
	return m, nil
}

func spread(list []time.Duration) string {
	return fmt.Sprintf("%s\t%s\t%s", round(percentile(list, 0.5)), round(percentile(list, 0.99)), round(slices.Max(list)))
}

func ratio(times [][]time.Duration, p float64) float64 {
	return float64(percentile(times[1], p)) / float64(percentile(times[0], p))
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// memory is a process's resident memory, in words.
func memory(p *edge.Process) string {
	mib, err := p.ResidentMiB()
	if err != nil {
		return "?"
	}
	return fmt.Sprintf("%d MiB", mib)
}
