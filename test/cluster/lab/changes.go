package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/sandbox"
)

// changes measures how long a change of an endpoint takes to reach new
// connections, beside the real kube-proxy (nftables) on the same changes.
type changes struct {
	services, toggles, rate int

	c       *cluster.Cluster
	kube    kubernetes.Interface
	backend []corev1.Pod
	to      netip.AddrPort
	begin   time.Time
}

const endpointsEach = 10

func changesCommand() *cobra.Command {
	b := &changes{}
	cmd := &cobra.Command{
		Use: "bench-changes", Short: "Measure how fast changes reach connections, beside kube-proxy on the same changes", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var result error
			sandbox.Run(func() int {
				if result = b.run(cmd.Context()); result != nil {
					fmt.Println("lab:", result)
					return 1
				}
				return 0
			})
			return result
		},
	}
	cmd.Flags().IntVar(&b.services, "services", 2000, "Services of 10 endpoints each")
	cmd.Flags().IntVar(&b.toggles, "toggles", 40, "changes of the canary Service that are timed")
	cmd.Flags().IntVar(&b.rate, "rate", 100, "slice changes a second of other Services meanwhile")
	return cmd
}

func (b *changes) say(format string, args ...any) {
	fmt.Printf("[%5.1fs] %s\n", time.Since(b.begin).Seconds(), fmt.Sprintf(format, args...))
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
	if _, err := b.c.AgentKubeconfig(); err != nil { // its RBAC is no part of a cold start
		return err
	}
	ours, theirs := b.c.Nodes["a-1"], b.c.Nodes["a-3"]
	b.say("cold start beside %d Services", b.services)
	cold := map[*cluster.Node]time.Duration{}
	for kind, n := range map[string]*cluster.Node{"gridmesh": ours, "kube-proxy": theirs} {
		start := time.Now()
		if err := n.StartProxy(kind); err != nil {
			return err
		}
		if err := b.wait(ctx, n.NS, b.backend[0].Name); err != nil {
			return err
		}
		cold[n] = time.Since(start)
		b.say("%s serves after %s", kind, cold[n].Round(time.Millisecond))
	}
	b.say("%d changes of the canary, with %d changes a second of others", b.toggles, b.rate)
	times, err := b.toggle(ctx, ours, theirs)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "PROXY\tCOLD START\tCHANGE P50\tP99\tMAX\tMEMORY")
	fmt.Fprintf(t, "gridmesh\t%s\t%s\tagent %s, Envoy %s\n", round(cold[ours]), spread(times[0]), memory(ours.Agent), memory(ours.Envoy))
	fmt.Fprintf(t, "kube-proxy nftables\t%s\t%s\t%s\n", round(cold[theirs]), spread(times[1]), memory(theirs.KubeProxy))
	fmt.Fprintf(t, "ratio\t1/%.0f\t1/%.0f\t1/%.0f\n", float64(cold[theirs])/float64(cold[ours]), ratio(times, 0.5), ratio(times, 0.99))
	return t.Flush()
}

func (b *changes) up(ctx context.Context) (err error) {
	b.c, err = cluster.Up(ctx, cluster.Config{
		Lab: netlab.Config{Units: []netlab.UnitConfig{{Name: "a", Nodes: []netlab.PodNetwork{netlab.Routed, netlab.Routed, netlab.Routed}}}}, Say: say,
	})
	if err != nil {
		return err
	}
	cfg := b.c.RESTConfig()
	cfg.QPS = -1
	if b.kube, err = kubernetes.NewForConfig(cfg); err != nil {
		return err
	}
	if err := b.c.Apply(shop); err != nil {
		return err
	}
	b.backend, err = b.c.WaitPods(ctx, "default", "app=shop", 3)
	return err
}

// fill writes the Services, with addresses of their own choice: the API
// server's allocator would take minutes.
func (b *changes) fill(ctx context.Context) error {
	const writers = 16
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := w; i < b.services && errs[w] == nil; i += writers {
				ip := netip.AddrFrom4([4]byte{10, 96, byte(16 + i>>8), byte(i)})
				_, err := b.kube.CoreV1().Services("default").Create(ctx, &corev1.Service{
					ObjectMeta: metav1.ObjectMeta{Name: serviceName(i)},
					Spec:       corev1.ServiceSpec{ClusterIP: ip.String(), Ports: []corev1.ServicePort{{Port: 80}}},
				}, metav1.CreateOptions{})
				if apierrors.IsInvalid(err) {
					continue // another Service was given the address first
				}
				if err == nil {
					_, err = b.kube.DiscoveryV1().EndpointSlices("default").Create(ctx, filler(i, 0), metav1.CreateOptions{})
				}
				errs[w] = err
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func serviceName(i int) string { return fmt.Sprintf("filler-%05d", i) }

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
	s.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{b.backend[i].Status.PodIP}, NodeName: &b.backend[i].Spec.NodeName, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}}
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

// wait dials the canary until a backend answers.
func (b *changes) wait(ctx context.Context, from *netlab.NS, name string) error {
	for ctx.Err() == nil {
		// Short, for before a proxy is there a packet may just be lost.
		if a, err := edge.Ask(from, "tcp", b.to, 100*time.Millisecond); err == nil && a.Name == name {
			return nil
		}
		time.Sleep(500 * time.Microsecond)
	}
	return ctx.Err()
}

func (b *changes) toggle(ctx context.Context, nodes ...*cluster.Node) ([][]time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go b.churn(ctx)
	times := make([][]time.Duration, len(nodes))
	for i := 1; i <= b.toggles; i++ {
		next := i % 2
		if err := b.canary(ctx, next, false); err != nil {
			return nil, err
		}
		start := time.Now()
		errs := make([]error, len(nodes))
		var wg sync.WaitGroup
		for j, n := range nodes {
			wg.Go(func() {
				errs[j] = b.wait(ctx, n.NS, b.backend[next].Name)
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

// churn changes slices of other Services at the given rate.
func (b *changes) churn(ctx context.Context) {
	tick := time.NewTicker(time.Second / time.Duration(b.rate))
	defer tick.Stop()
	for generation := 1; ; generation++ {
		select {
		case <-tick.C:
			go func() {
				_, _ = b.kube.DiscoveryV1().EndpointSlices("default").Update(ctx, filler(rand.IntN(b.services), generation), metav1.UpdateOptions{})
			}()
		case <-ctx.Done():
			return
		}
	}
}

func percentile(list []time.Duration, p float64) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}

func spread(list []time.Duration) string {
	return fmt.Sprintf("%s\t%s\t%s", round(percentile(list, 0.5)), round(percentile(list, 0.99)), round(slices.Max(list)))
}

func ratio(times [][]time.Duration, p float64) float64 {
	return float64(percentile(times[1], p)) / float64(percentile(times[0], p))
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// memory is a process's resident memory.
func memory(p *edge.Process) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return "?"
	}
	for line := range strings.Lines(string(data)) {
		var kib int
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			return fmt.Sprintf("%d MiB", kib>>10)
		}
	}
	return "?"
}
