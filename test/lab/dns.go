package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/miekg/dns"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	annotations "github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// dnsBench measures grid names, with the data of a real agent, beside CoreDNS'
// hosts plugin with the same names and its kubernetes plugin on the same
// objects: three processes of the same program on one node, without a cache.
type dnsBench struct {
	sets, pods int // Services of a StatefulSetGrid, and ordinals of each
	units      int
	services   int // Services with a ClusterIP besides
	rounds     int
	each       time.Duration
	clients    int
	toggles    int

	clock
	c       *cluster.Cluster
	node    *cluster.Node
	kube    kubernetes.Interface
	servers []*dnsServer
}

func dnsCommand() *cobra.Command {
	b := &dnsBench{}
	cmd := &cobra.Command{
		Use: "bench-dns", Short: "Measure grid names beside CoreDNS' plugins hosts and kubernetes", Args: cobra.NoArgs,
		Example: "  lab bench-dns --sets 10 --rounds 2",
		RunE: checked(func() error {
			if b.units > 2 || b.each <= 0 {
				return usagef("--units %d --each %s: at most 2, and more than nothing", b.units, b.each)
			}
			return atLeast(1, "sets", b.sets, "pods", b.pods, "units", b.units, "services", b.services, "rounds", b.rounds, "clients", b.clients, "toggles", b.toggles)
		}, b.run),
	}
	f := cmd.Flags()
	f.IntVar(&b.sets, "sets", 100, "StatefulSetGrids")
	f.IntVar(&b.pods, "pods", 100, "pods of each in a unit")
	f.IntVar(&b.units, "units", 1, "units with those pods, 1 or 2; the first is asked for")
	f.IntVar(&b.services, "services", 5000, "Services with a ClusterIP besides")
	f.IntVar(&b.rounds, "rounds", 5, "rounds of each")
	f.DurationVar(&b.each, "each", 3*time.Second, "length of a round")
	f.IntVar(&b.clients, "clients", 8, "clients that ask at once")
	f.IntVar(&b.toggles, "toggles", 300, "changes of a slice that are timed")
	return cmd
}

// dnsServer is one process that is asked.
type dnsServer struct {
	what    string
	port    int
	block   string // of the Corefile
	infix   string // what the name of a pod has before its number
	process *edge.Process
	qps     []float64
	p99     []time.Duration
}

func (b *dnsBench) run(ctx context.Context) (err error) {
	printFacts()
	b.begin = time.Now()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	if b.c, b.kube, err = start(ctx, cluster.Config{Lab: oneUnit(1), Proxy: map[string]string{"": "gridmesh"}}); err != nil {
		return err
	}
	b.node = b.c.Nodes["a-1"]
	b.say("writing %d Services and %d slices of %d pods", b.services+b.sets, b.sets*b.units, b.pods)
	if err := b.fill(ctx); err != nil {
		return err
	}
	dir := b.node.Dir
	b.servers = []*dnsServer{
		{what: "grid", port: 1053, infix: "-", block: fmt.Sprintf("grid cluster.local {\n node a-1\n services on\n source unix://%s/feed.sock\n snapshot %s/bench.v1\n }", dir, dir)},
		{what: "hosts", port: 1054, infix: "-", block: fmt.Sprintf("hosts %s/hosts cluster.local {\n ttl 5\n }", dir)},
		{what: "kubernetes", port: 1055, infix: "-a-", block: fmt.Sprintf("kubernetes cluster.local {\n kubeconfig %s\n }", b.c.Kubeconfig)},
	}
	for _, s := range b.servers {
		if err := b.start(ctx, s); err != nil {
			return err
		}
		defer s.process.Signal(syscall.SIGTERM)
	}
	for range b.rounds {
		for _, s := range b.servers {
			if err := b.round(ctx, s); err != nil {
				return fmt.Errorf("%s: %w\n%s", s.what, err, s.process.Log())
			}
		}
	}
	b.say("%d changes of a slice", b.toggles)
	times, err := b.changes(ctx)
	if err != nil {
		return err
	}
	return b.report(times)
}

func (b *dnsBench) report(times []time.Duration) error {
	t := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "PLUGIN, %d NAMES\tQUERIES/S\tP99\tMEMORY\tGRID'S QUERIES/S, P99\n", b.sets*b.pods)
	grid := b.servers[0]
	for _, s := range b.servers {
		fmt.Fprintf(t, "%s\t%.0f\t%s\t%s\t%.2f, %.2f\n", s.what, median(s.qps), median(s.p99).Round(time.Microsecond), memory(s.process),
			median(grid.qps)/median(s.qps), float64(median(grid.p99))/float64(median(s.p99)))
	}
	fmt.Fprintf(t, "a slice changed: its new answer after (P50, P99, MAX)\t%s\n", spread(times))
	return t.Flush()
}

// start runs a server, and waits until it knows the last name.
func (b *dnsBench) start(ctx context.Context, s *dnsServer) (err error) {
	path := filepath.Join(b.node.Dir, s.what+".corefile")
	text := fmt.Sprintf(".:%d {\n bind 127.0.0.1\n %s\n}\n", s.port, s.block)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	if s.process, err = edge.Start(b.node.NS, s.what, edge.Binary("gridmesh-dns"), "-conf", path, "-quiet"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := wait.Until(ctx, func() error {
		_, err := edge.Resolve(b.node.NS, fmt.Sprintf("127.0.0.1:%d", s.port), b.question(s, b.sets-1, b.pods-1), dns.TypeA)
		return err
	}); err != nil {
		return fmt.Errorf("%s: %w\n%s", s.what, err, s.process.Log())
	}
	return nil
}

func (b *dnsBench) set(i int) string { return fmt.Sprintf("set%03d", i) }

// question is the name of a pod: for kubernetes, its hostname's.
func (b *dnsBench) question(s *dnsServer, i, j int) string {
	return fmt.Sprintf("%s%s%d.%s.default.svc.cluster.local.", b.set(i), s.infix, j, b.set(i))
}

func (b *dnsBench) ip(unit, i, j int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(1 + unit), byte(i), byte(j)})
}

// fill writes the objects, and the hosts file.
func (b *dnsBench) fill(ctx context.Context) error {
	other := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b-1", Labels: map[string]string{"unit": "b"}}}
	if _, err := b.kube.CoreV1().Nodes().Create(ctx, other, metav1.CreateOptions{}); err != nil {
		return err
	}
	var hosts strings.Builder
	for i := range b.sets {
		for j := range b.pods {
			fmt.Fprintf(&hosts, "%s %s-%d.%s.default.svc.cluster.local\n", b.ip(0, i, j), b.set(i), j, b.set(i))
		}
	}
	return errors.Join(
		many(ctx, b.services, b.service), many(ctx, b.sets, b.headless),
		os.WriteFile(filepath.Join(b.node.Dir, "hosts"), []byte(hosts.String()), 0o600))
}

func (b *dnsBench) service(ctx context.Context, i int) error {
	_, err := makeService(ctx, b.kube, i, nil)
	return err
}

func (b *dnsBench) headless(ctx context.Context, i int) error {
	_, err := b.kube.CoreV1().Services("default").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: b.set(i), Labels: map[string]string{annotations.GridUniqKey: "unit"}, Annotations: map[string]string{annotations.TopologyKeys: `["unit"]`}},
		Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Name: "main", Port: 8080}}},
	}, metav1.CreateOptions{})
	for unit := range max(1, min(2, b.units)) {
		if err == nil {
			_, err = b.kube.DiscoveryV1().EndpointSlices("default").Create(ctx, b.slice(unit, i, 0), metav1.CreateOptions{})
		}
	}
	return err
}

// slice has the pods of one unit; that of number 0 moves with generation.
func (b *dnsBench) slice(unit, i, generation int) *discoveryv1.EndpointSlice {
	name := string(rune('a' + unit))
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: b.set(i) + "-" + name, Labels: map[string]string{
			discoveryv1.LabelServiceName: b.set(i), annotations.Headless: "", annotations.GridUniqKey: "unit",
		}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: ptr.To("main"), Port: ptr.To(int32(8080))}},
	}
	for j := range b.pods {
		ip := b.ip(unit, i, j)
		if j == 0 && generation > 0 {
			ip = netip.AddrFrom4([4]byte{10, 9, byte(generation >> 8), byte(generation)})
		}
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{ip.String()}, NodeName: ptr.To(name + "-1"), Hostname: ptr.To(fmt.Sprintf("%s-%s-%d", b.set(i), name, j)),
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
		})
	}
	return s
}

// changes times how long a change of a slice takes, from the API server's
// answer through the agent, until its pod's name has the new address.
func (b *dnsBench) changes(ctx context.Context) (times []time.Duration, err error) {
	grid := b.servers[0]
	name := b.question(grid, 0, 0)
	for generation := 1; generation <= b.toggles; generation++ {
		s := b.slice(0, 0, generation)
		if _, err := b.kube.DiscoveryV1().EndpointSlices("default").Update(ctx, s, metav1.UpdateOptions{}); err != nil {
			return nil, err
		}
		start := time.Now()
		for {
			got, err := edge.Resolve(b.node.NS, fmt.Sprintf("127.0.0.1:%d", grid.port), name, dns.TypeA)
			if err != nil {
				return nil, err
			}
			if slices.Equal(got, s.Endpoints[0].Addresses) {
				break
			}
			if ctx.Err() != nil {
				return nil, fmt.Errorf("%s is %q, not %s", name, got, s.Endpoints[0].Addresses)
			}
		}
		times = append(times, time.Since(start))
		time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond)
	}
	return times, nil
}

// round asks one server from all clients for a while; every answer is checked.
func (b *dnsBench) round(ctx context.Context, s *dnsServer) error {
	ctx, cancel := context.WithTimeout(ctx, b.each)
	defer cancel()
	times := make([][]time.Duration, b.clients)
	errs := make([]error, b.clients)
	var wg sync.WaitGroup
	start := time.Now()
	for i := range b.clients {
		conn, err := b.node.NS.Dial(ctx, "udp", fmt.Sprintf("127.0.0.1:%d", s.port))
		if err != nil {
			return err
		}
		wg.Go(func() {
			defer conn.Close()
			times[i], errs[i] = b.client(ctx, s, conn, rand.New(rand.NewPCG(uint64(i), 1)))
		})
	}
	wg.Wait()
	all := slices.Concat(times...)
	s.qps = append(s.qps, float64(len(all))/time.Since(start).Seconds())
	s.p99 = append(s.p99, percentile(all, 0.99))
	return errors.Join(errs...)
}

func (b *dnsBench) client(ctx context.Context, s *dnsServer, conn net.Conn, r *rand.Rand) (times []time.Duration, err error) {
	buf := make([]byte, 4096)
	reply := &dns.Msg{}
	for ctx.Err() == nil {
		i, j := r.IntN(b.sets), r.IntN(b.pods)
		name, want := b.question(s, i, j), b.ip(0, i, j).String()
		query, err := new(dns.Msg).SetQuestion(name, dns.TypeA).Pack()
		if err != nil {
			return times, err
		}
		start := time.Now()
		_ = conn.SetDeadline(start.Add(2 * time.Second))
		if _, err := conn.Write(query); err != nil {
			return times, err
		}
		n, err := conn.Read(buf)
		if err != nil {
			return times, err
		}
		times = append(times, time.Since(start))
		if err := reply.Unpack(buf[:n]); err != nil || len(reply.Answer) != 1 || !strings.HasSuffix(reply.Answer[0].String(), want) {
			return times, fmt.Errorf("%s is answered by %s, want %s: %w", name, reply, want, err)
		}
	}
	return times, nil
}
