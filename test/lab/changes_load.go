package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

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
	if err := edge.MissingForKubeProxy(); err != nil { // before minutes of loading
		return err
	}
	if b.c, b.kube, err = start(ctx, cluster.Config{Lab: oneUnit(3), AgentFlags: b.flags()}); err != nil {
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
	list := []string{"--datapath", b.datapath}
	if b.subscribed {
		list = append(list, "--preload-max", strconv.Itoa(2*b.services))
	}
	return list
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
