package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	annotations "github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

// changes measures how long a change of an endpoint takes to reach new
// connections, beside the real kube-proxy (nftables) on the same changes.
//
// Node a-1 runs gridmesh, a-3 kube-proxy, and on a-2 the pods are. Every node
// uses the same 50 Services all the time.
type changes struct {
	services, paired, toggles, rate int
	subscribed                      bool

	c     *cluster.Cluster
	kube  kubernetes.Interface
	shop  []corev1.Pod // the canary's
	shelf []corev1.Pod // of the Services in use
	to    netip.AddrPort
	inUse []netip.AddrPort
	at    int // the pod that the canary leads to
	clock
}

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
		RunE: sandboxed(b.run),
	}
	cmd.Flags().IntVar(&b.services, "services", 2000, "Services of 10 endpoints each")
	cmd.Flags().IntVar(&b.paired, "paired", 12, "changes of the canary Service that are timed on both")
	cmd.Flags().IntVar(&b.toggles, "toggles", 200, "changes of the canary Service that are timed on gridmesh alone, afterwards")
	cmd.Flags().IntVar(&b.rate, "rate", 100, "slice changes a second of other Services meanwhile, a tenth of them on Services in use")
	cmd.Flags().BoolVar(&b.subscribed, "subscribed", false, "let Envoy hold every Service, and not only those in use")
	return cmd
}

func (b *changes) run(ctx context.Context) error {
	printFacts()
	b.begin = time.Now()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute)
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
	fmt.Fprintf(t, "gridmesh\t%s\t%s\t%s\tagent %s, Envoy %s\n", round(first[0]), round(all[0]), spread(times.paired[0]), times.agent, times.envoy)
	fmt.Fprintf(t, "kube-proxy nftables\t%s\t%s\t%s\t%s\n", round(first[1]), round(all[1]), spread(times.paired[1]), times.kubeProxy)
	fmt.Fprintf(t, "ratio\t1/%.0f\t1/%.0f\t1/%.0f\t1/%.0f\n", float64(first[1])/float64(first[0]), float64(all[1])/float64(all[0]), ratio(times.paired, 0.5), ratio(times.paired, 0.99))
	fmt.Fprintf(t, "gridmesh alone, %d changes\t\t\t%s\n", len(times.alone), spread(times.alone))
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
	alone                   []time.Duration
	used, failed            int64
	agent, envoy, kubeProxy string
	stateBytes              float64
	took                    time.Duration
}

func (b *changes) underLoad(ctx context.Context, ours, theirs *cluster.Node) (m measured, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go b.churn(ctx)
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
	for line := range strings.Lines(text) {
		_, _ = fmt.Sscanf(line, "gridmesh_state_written_bytes_total %g", &m.stateBytes)
	}
	return m, err
}

// use dials the Services in use in turn.
func (b *changes) use(ctx context.Context, from *netlab.NS, used, failed *atomic.Int64) {
	for i := 0; ctx.Err() == nil; i++ {
		if _, err := edge.Ask(from, "tcp", b.inUse[i%len(b.inUse)], time.Second); err != nil {
			failed.Add(1)
		}
		used.Add(1)
		time.Sleep(useEvery)
	}
}

func (b *changes) up(ctx context.Context) (err error) {
	b.c, err = cluster.Up(ctx, cluster.Config{
		Lab: netlab.Config{Units: []netlab.UnitConfig{{Name: "a", Nodes: []netlab.PodNetwork{netlab.Routed, netlab.Routed, netlab.Routed}}}}, Say: say,
		AgentFlags: b.flags(),
	})
	if err != nil {
		return err
	}
	cfg := b.c.RESTConfig()
	cfg.QPS = -1
	if b.kube, err = kubernetes.NewForConfig(cfg); err != nil {
		return err
	}
	if err := b.c.Apply(shop + "---" + shelf); err != nil {
		return err
	}
	if b.shop, err = b.c.WaitPods(ctx, "default", "app=shop", 3); err != nil {
		return err
	}
	b.shelf, err = b.c.WaitPods(ctx, "default", "app=shelf", endpointsEach)
	return err
}

func (b *changes) flags() []string {
	if b.subscribed {
		return []string{"--preload-max", strconv.Itoa(2 * b.services)}
	}
	return nil
}

// fill writes the Services and their slices.
func (b *changes) fill(ctx context.Context) error {
	var mu sync.Mutex
	return many(ctx, b.services, func(ctx context.Context, i int) error {
		var keys map[string]string
		if b.subscribed {
			keys = map[string]string{annotations.TopologyKeys: `["unit"]`}
		}
		ip, err := makeService(ctx, b.kube, i, keys)
		if err != nil || !ip.IsValid() {
			return err
		}
		if _, err := b.kube.DiscoveryV1().EndpointSlices("default").Create(ctx, b.slice(i, 0), metav1.CreateOptions{}); err != nil {
			return err
		}
		if b.isInUse(i) {
			mu.Lock()
			b.inUse = append(b.inUse, netip.AddrPortFrom(ip, 80))
			mu.Unlock()
		}
		return nil
	})
}

// makeService makes a Service with an address of its own choice: the API
// server's allocator would take minutes. The address is zero, and there is no
// Service, where another was given it first.
func makeService(ctx context.Context, kube kubernetes.Interface, i int, notes map[string]string) (netip.Addr, error) {
	ip := netip.AddrFrom4([4]byte{10, 96, byte(16 + i>>8), byte(i)})
	_, err := kube.CoreV1().Services("default").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: serviceName(i), Annotations: notes},
		Spec:       corev1.ServiceSpec{ClusterIP: ip.String(), Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if apierrors.IsInvalid(err) {
		return netip.Addr{}, nil
	}
	return ip, err
}

func serviceName(i int) string { return fmt.Sprintf("filler-%05d", i) }

// isInUse spreads the Services in use over all.
func (b *changes) isInUse(i int) bool { return i%(b.services/servicesInUse) == 0 }

// slice is a Service's endpoints: pods for those in use, of which one comes
// and goes with the generations, and addresses that nobody has for the others.
func (b *changes) slice(i, generation int) *discoveryv1.EndpointSlice {
	if !b.isInUse(i) {
		return filler(i, generation)
	}
	s := newSlice(serviceName(i))
	for j := range b.shelf[:endpointsEach-generation%2] {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{b.shelf[j].Status.PodIP}, NodeName: ptr.To("a-2"), Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
		})
	}
	return s
}

func filler(i, generation int) *discoveryv1.EndpointSlice {
	s := newSlice(serviceName(i))
	for j := range endpointsEach {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf("10.244.%d.%d", 100+(i+generation)%100, 1+(i*13+j*7+generation)%250)}, NodeName: ptr.To("a-2"),
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
		})
	}
	return s
}

func newSlice(service string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: ptr.To(""), Port: ptr.To(int32(8080))}},
	}
}

// canary points the canary Service to one backend.
func (b *changes) canary(ctx context.Context, i int, first bool) error {
	s := newSlice("canary")
	s.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{b.shop[i].Status.PodIP}, NodeName: &b.shop[i].Spec.NodeName, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}}
	if !first {
		_, err := b.kube.DiscoveryV1().EndpointSlices("default").Update(ctx, s, metav1.UpdateOptions{})
		return err
	}
	svc, err := b.kube.CoreV1().Services("default").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "canary"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	b.to = netip.AddrPortFrom(netip.MustParseAddr(svc.Spec.ClusterIP), 80)
	_, err = b.kube.DiscoveryV1().EndpointSlices("default").Create(ctx, s, metav1.CreateOptions{})
	return err
}

// wait dials until a pod of a name answers.
func untilAnswered(ctx context.Context, from *netlab.NS, to netip.AddrPort, name string) error {
	for ctx.Err() == nil {
		// Short, for before a proxy is there a packet may just be lost.
		if a, err := edge.Ask(from, "tcp", to, 100*time.Millisecond); err == nil && strings.HasPrefix(a.Name, name) {
			return nil
		}
		time.Sleep(500 * time.Microsecond)
	}
	return ctx.Err()
}

func (b *changes) toggle(ctx context.Context, toggles int, nodes ...*cluster.Node) ([][]time.Duration, error) {
	times := make([][]time.Duration, len(nodes))
	for range toggles {
		b.at = 1 - b.at
		next := b.at
		if err := b.canary(ctx, next, false); err != nil {
			return nil, err
		}
		start := time.Now()
		errs := make([]error, len(nodes))
		var wg sync.WaitGroup
		for j, n := range nodes {
			wg.Go(func() {
				errs[j] = untilAnswered(ctx, n.NS, b.to, b.shop[next].Name)
				times[j] = append(times[j], time.Since(start))
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
	}
	return times, nil
}

// churn changes slices of other Services at the given rate, a tenth of them of
// Services in use.
func (b *changes) churn(ctx context.Context) {
	tick := time.NewTicker(time.Second / time.Duration(b.rate))
	defer tick.Stop()
	for generation := 1; ; generation++ {
		select {
		case <-tick.C:
			i := rand.IntN(b.services)
			if generation%10 == 0 {
				i = rand.IntN(servicesInUse) * (b.services / servicesInUse)
			}
			go func() {
				_, _ = b.kube.DiscoveryV1().EndpointSlices("default").Update(ctx, b.slice(i, generation/10), metav1.UpdateOptions{})
			}()
		case <-ctx.Done():
			return
		}
	}
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
