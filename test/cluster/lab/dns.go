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

	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/topology"
)

// dnsBench measures grid names beside the hosts plugin with the same names, in
// two processes of the same program.
type dnsBench struct {
	sets, pods int // Services of a StatefulSetGrid, and ordinals of each
	units      int
	services   int // Services with a ClusterIP besides, in grid alone
	rounds     int
	each       time.Duration
	clients    int
}

func dnsCommand() *cobra.Command {
	b := &dnsBench{}
	cmd := &cobra.Command{
		Use: "bench-dns", Short: "Measure grid names beside CoreDNS' hosts plugin with the same names", Args: cobra.NoArgs,
		RunE: sandboxed(b.run),
	}
	f := cmd.Flags()
	f.IntVar(&b.sets, "sets", 100, "StatefulSetGrids")
	f.IntVar(&b.pods, "pods", 100, "pods of each in a unit")
	f.IntVar(&b.units, "units", 2, "units with those pods, 1 or 2; the first is asked for")
	f.IntVar(&b.services, "services", 5000, "Services with a ClusterIP, which grid holds besides")
	f.IntVar(&b.rounds, "rounds", 5, "rounds of each")
	f.DurationVar(&b.each, "each", 3*time.Second, "length of a round")
	f.IntVar(&b.clients, "clients", 8, "clients that ask at once")
	return cmd
}

// server is one process that is asked.
type dnsServer struct {
	what    string
	port    int
	process *edge.Process
	qps     []float64
	p99     []time.Duration
}

func (b *dnsBench) run(ctx context.Context) error {
	printFacts()
	lab, err := netlab.Build(netlab.Config{})
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-dns")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := b.write(dir); err != nil {
		return err
	}
	servers := []*dnsServer{{what: "grid", port: 1053}, {what: "hosts", port: 1054}}
	blocks := map[string]string{
		"grid":  fmt.Sprintf("grid cluster.local {\n node a\n services on\n source unix://%s/none.sock\n snapshot %s/dns.v1\n }", dir, dir),
		"hosts": fmt.Sprintf("hosts %s/hosts cluster.local {\n ttl 5\n }", dir),
	}
	for _, s := range servers {
		path := filepath.Join(dir, s.what+".corefile")
		text := fmt.Sprintf(".:%d {\n bind 127.0.0.1\n %s\n}\n", s.port, blocks[s.what])
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
		if s.process, err = edge.Start(lab.Cloud, s.what, edge.Binary("gridmesh-dns"), "-conf", path, "-quiet"); err != nil {
			return err
		}
		defer s.process.Signal(syscall.SIGTERM)
	}
	time.Sleep(2 * time.Second)
	for range b.rounds {
		for _, s := range servers {
			if err := b.round(ctx, lab.Cloud, s); err != nil {
				return fmt.Errorf("%s: %w\n%s", s.what, err, s.process.Log())
			}
		}
	}
	t := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "PLUGIN, %d NAMES\tQUERIES/S\tP99\tMEMORY\n", b.sets*b.pods)
	for _, s := range servers {
		fmt.Fprintf(t, "%s\t%.0f\t%s\t%s\n", s.what, median(s.qps), median64(s.p99).Round(time.Microsecond), memory(s.process))
	}
	fmt.Fprintf(t, "ratio\t%.2f\t%.2f\n", median(servers[0].qps)/median(servers[1].qps), float64(median64(servers[0].p99))/float64(median64(servers[1].p99)))
	return t.Flush()
}

func median64(list []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(list))[len(list)/2]
}

func (b *dnsBench) set(i int) string { return fmt.Sprintf("set%03d", i) }

// name is a question: the ordinal of a random pod.
func (b *dnsBench) name(r *rand.Rand) (string, string) {
	i, j := r.IntN(b.sets), r.IntN(b.pods)
	return fmt.Sprintf("%s-%d.%s.default.svc.cluster.local.", b.set(i), j, b.set(i)), b.ip(i, j).String()
}

func (b *dnsBench) ip(i, j int) netip.Addr { return netip.AddrFrom4([4]byte{10, 1, byte(i), byte(j)}) }

// write makes the same names as a snapshot and as a hosts file; the snapshot
// has a second unit's besides.
func (b *dnsBench) write(dir string) error {
	build := topology.NewBuilder()
	keys := `["site"]`
	units := []string{"a", "b"}[:max(1, min(2, b.units))]
	for _, unit := range units {
		build.SetNode(&topology.Node{Name: unit, Labels: map[string]string{"site": unit}})
	}
	var hosts strings.Builder
	for i := range b.services {
		build.SetService(&topology.Service{
			Key:        topology.ObjectKey{Namespace: "default", Name: fmt.Sprintf("service%05d", i)},
			ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})}, Ports: []topology.ServicePort{{Name: "http", Protocol: topology.TCP, Port: 80}},
		})
	}
	for i := range b.sets {
		key := topology.ObjectKey{Namespace: "default", Name: b.set(i)}
		build.SetService(&topology.Service{Key: key, Headless: true, GridKey: "site", TopologyKeys: &keys})
		for _, unit := range units {
			slice := &topology.Slice{Key: topology.ObjectKey{Namespace: "default", Name: b.set(i) + unit}, Service: b.set(i)}
			for j := range b.pods {
				ip := b.ip(i, j)
				if unit == "b" {
					ip = netip.AddrFrom4([4]byte{10, 2, byte(i), byte(j)})
				} else {
					fmt.Fprintf(&hosts, "%s %s-%d.%s.default.svc.cluster.local\n", ip, b.set(i), j, b.set(i))
				}
				slice.Endpoints = append(slice.Endpoints, topology.Endpoint{Addr: ip, Node: unit, Hostname: fmt.Sprintf("%s-%s-%d", b.set(i), unit, j), Ready: true})
			}
			build.SetSlice(slice)
		}
	}
	return errors.Join(
		source.NewKeeper(filepath.Join(dir, "dns.v1"), time.Second).Write(&source.State{Snapshot: build.Build()}, time.Now()),
		os.WriteFile(filepath.Join(dir, "hosts"), []byte(hosts.String()), 0o600))
}

// round asks one server from all clients for a while; every answer is checked.
func (b *dnsBench) round(ctx context.Context, from *netlab.NS, s *dnsServer) error {
	ctx, cancel := context.WithTimeout(ctx, b.each)
	defer cancel()
	times := make([][]time.Duration, b.clients)
	errs := make([]error, b.clients)
	var wg sync.WaitGroup
	start := time.Now()
	for i := range b.clients {
		conn, err := from.Dial(ctx, "udp", fmt.Sprintf("127.0.0.1:%d", s.port))
		if err != nil {
			return err
		}
		wg.Go(func() {
			defer conn.Close()
			times[i], errs[i] = b.client(ctx, conn, rand.New(rand.NewPCG(uint64(i), 1)))
		})
	}
	wg.Wait()
	all := slices.Concat(times...)
	s.qps = append(s.qps, float64(len(all))/time.Since(start).Seconds())
	s.p99 = append(s.p99, percentile(all, 0.99))
	return errors.Join(errs...)
}

func (b *dnsBench) client(ctx context.Context, conn net.Conn, r *rand.Rand) (times []time.Duration, err error) {
	buf := make([]byte, 4096)
	reply := &dns.Msg{}
	for ctx.Err() == nil {
		name, want := b.name(r)
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
