package feed

import (
	"fmt"
	"log/slog"
	"runtime"
	"sort"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/internal/apitest"
)

// BenchmarkQuietChange times a change after a pause until the snapshot that has
// it, beside a bare watch of the same objects.
func BenchmarkQuietChange(b *testing.B) {
	s := apitest.New(b)
	put := func(ip string) {
		s.Put(b, fmt.Sprintf(sliceYAML, "kubernetes", "kubernetes", "", "", ip))
	}
	s.Put(b, `{apiVersion: v1, kind: Service, metadata: {namespace: default, name: kubernetes}, spec: {clusterIP: 10.96.0.1, ports: [{port: 443}]}}`)
	put("192.0.2.1")
	client := s.Client(b)
	f := New(client, slog.New(slog.DiscardHandler), NewMetrics(prometheus.NewRegistry()))
	ended := make(chan struct{})
	go func() { defer close(ended); _ = f.Run(b.Context()) }()
	b.Cleanup(func() { s.Close(); <-ended })
	wake := f.Wake()
	<-wake
	bare, err := client.Typed.DiscoveryV1().EndpointSlices("").Watch(b.Context(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer bare.Stop()
	<-bare.ResultChan()
	var ours, theirs []time.Duration
	for i := range b.N {
		time.Sleep(2 * batch)
		begin := time.Now()
		put(fmt.Sprintf("192.0.2.%d", 2+i%200))
		<-bare.ResultChan()
		theirs = append(theirs, time.Since(begin))
		<-wake
		ours = append(ours, time.Since(begin))
	}
	for _, list := range [][]time.Duration{ours, theirs} {
		sort.Slice(list, func(i, j int) bool { return list[i] < list[j] })
	}
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	b.ReportMetric(ms(ours[len(ours)/2]), "p50-ms")
	b.ReportMetric(ms(ours[len(ours)*99/100]), "p99-ms")
	b.ReportMetric(ms(theirs[len(theirs)/2]), "bare-p50-ms")
}

// BenchmarkKept measures what is left in memory of 10,000 Services of 10
// endpoints on 1,000 nodes, once they are read.
func BenchmarkKept(b *testing.B) {
	for b.Loop() {
		before := heap()
		f := New(&kube.Client{}, slog.New(slog.DiscardHandler), NewMetrics(prometheus.NewRegistry()))
		ofServices := newStore(f, services{}, selected("services", "", "", 0))
		ofSlices := newStore(f, slices{since: time.Now()}, selected("endpointslices", "", "", 0))
		for i := range 10_000 {
			_ = ofServices.Add(service(i))
			_ = ofSlices.Add(endpoints(i))
		}
		f.Publish(f.builder.Build())
		b.ReportMetric(float64(heap()-before)/(1<<20), "MiB")
		runtime.KeepAlive(f)
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func service(i int) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("service-%d", i)},
		Spec:       corev1.ServiceSpec{ClusterIP: fmt.Sprintf("10.%d.%d.%d", 96+i>>16, i>>8&255, i&255), Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
}

func endpoints(i int) *discoveryv1.EndpointSlice {
	name, port := fmt.Sprint("ht", "tp"), int32(8080)
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("service-%d-x", i), Labels: map[string]string{discoveryv1.LabelServiceName: fmt.Sprintf("service-%d", i)}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
	}
	for j := range 10 {
		node := fmt.Sprintf("node-%d", (i*7+j*97)%1000) // each a string of its own, as from the wire
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.1.%d.%d", i%256, j)}, NodeName: &node})
	}
	return s
}
