package dnsplugin

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gridmesh/gridmesh/dnsplugin/answer"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

// units is a StatefulSetGrid db in units a and b, with a headless Service, and
// a Service with a ClusterIP.
func units() *topology.Snapshot {
	b := topology.NewBuilder()
	keys := `["site"]`
	ports := []topology.SlicePort{{Name: "sql", Protocol: topology.TCP, Port: 5432}}
	b.SetService(&topology.Service{Key: topology.ObjectKey{Namespace: "shop", Name: "db"}, Headless: true, GridKey: "site", TopologyKeys: &keys})
	b.SetService(&topology.Service{Key: topology.ObjectKey{Namespace: "shop", Name: "web"}, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.7"), netip.MustParseAddr("fd00::7")}, Ports: []topology.ServicePort{{Name: "http", Protocol: topology.TCP, Port: 80}}})
	b.SetService(&topology.Service{Key: topology.ObjectKey{Namespace: "shop", Name: "outside"}, Foreign: true})
	v4 := &topology.Slice{Key: topology.ObjectKey{Namespace: "shop", Name: "db-4"}, Service: "db", Ports: ports}
	v6 := &topology.Slice{Key: topology.ObjectKey{Namespace: "shop", Name: "db-6"}, Service: "db", IPv6: true, Ports: ports}
	for i, unit := range []string{"a", "b"} {
		b.SetNode(&topology.Node{Name: unit + "1", Labels: map[string]string{"site": unit}})
		name := "db-" + unit + "-0"
		v4.Endpoints = append(v4.Endpoints, topology.Endpoint{Addr: netip.MustParseAddr(fmt.Sprintf("10.1.%d.1", i)), Node: unit + "1", Hostname: name, Ready: true})
		v6.Endpoints = append(v6.Endpoints, topology.Endpoint{Addr: netip.MustParseAddr(fmt.Sprintf("fd01::%d:1", i)), Node: unit + "1", Hostname: name, Ready: true})
	}
	b.SetSlice(v4)
	b.SetSlice(v6)
	return b.Build()
}

// plugged is the plugin on a1.
func plugged(cfg answer.Config) *Grid {
	g := &Grid{
		Zones: []string{"cluster.local.", "in-addr.arpa.", "ip6.arpa."}, cfg: config{node: "a1", source: defaultSource, ttl: 5}, feed: source.NewSocket(defaultSource.Path), answers: cfg, disk: realDisk,
		Next: plugin.HandlerFunc(func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
			m := new(dns.Msg).SetRcode(r, dns.RcodeRefused) // stands for whoever comes next
			return dns.RcodeRefused, w.WriteMsg(m)
		}),
	}
	g.publish(units(), fromSource)
	return g
}

const soa = "cluster.local. 5 IN SOA ns.dns.cluster.local. hostmaster.cluster.local. 0 7200 1800 86400 5"

func TestAnswers(t *testing.T) {
	on, off := answer.Config{Services: true}, answer.Config{}
	a := func(name, ip string) dns.RR { return test.A(name + " 5 IN A " + ip) }
	for _, c := range []struct {
		cfg answer.Config
		test.Case
	}{
		{off, test.Case{Qname: "db.shop.svc.cluster.local.", Qtype: dns.TypeA, Answer: []dns.RR{a("db.shop.svc.cluster.local.", "10.1.0.1")}}},
		{off, test.Case{Qname: "db-0.DB.shop.svc.cluster.local.", Qtype: dns.TypeAAAA, Answer: []dns.RR{test.AAAA("db-0.DB.shop.svc.cluster.local. 5 IN AAAA fd01::1")}}},
		{off, test.Case{Qname: "db-b-0.db.shop.svc.cluster.local.", Qtype: dns.TypeA, Answer: []dns.RR{a("db-b-0.db.shop.svc.cluster.local.", "10.1.1.1")}}},
		{off, test.Case{Qname: "db-1.db.shop.svc.cluster.local.", Qtype: dns.TypeA, Rcode: dns.RcodeNameError, Ns: []dns.RR{test.SOA(soa)}}},
		{off, test.Case{Qname: "db.shop.svc.cluster.local.", Qtype: dns.TypeMX, Ns: []dns.RR{test.SOA(soa)}}},
		{off, test.Case{
			Qname: "_sql._tcp.db.shop.svc.cluster.local.", Qtype: dns.TypeSRV,
			Answer: []dns.RR{test.SRV("_sql._tcp.db.shop.svc.cluster.local. 5 IN SRV 0 50 5432 db-a-0.db.shop.svc.cluster.local.")},
			Extra:  []dns.RR{a("db-a-0.db.shop.svc.cluster.local.", "10.1.0.1"), test.AAAA("db-a-0.db.shop.svc.cluster.local. 5 IN AAAA fd01::1")},
		}},
		{off, test.Case{Qname: "web.shop.svc.cluster.local.", Qtype: dns.TypeA, Rcode: dns.RcodeRefused}},
		{off, test.Case{Qname: "7.0.96.10.in-addr.arpa.", Qtype: dns.TypePTR, Rcode: dns.RcodeRefused}},
		{off, test.Case{Qname: "example.org.", Qtype: dns.TypeA, Rcode: dns.RcodeRefused}},
		{on, test.Case{Qname: "web.shop.svc.cluster.local.", Qtype: dns.TypeA, Answer: []dns.RR{a("web.shop.svc.cluster.local.", "10.96.0.7")}}},
		{on, test.Case{Qname: "7.0.96.10.in-addr.arpa.", Qtype: dns.TypePTR, Answer: []dns.RR{test.PTR("7.0.96.10.in-addr.arpa. 5 IN PTR web.shop.svc.cluster.local.")}}},
		{on, test.Case{Qname: "1.0.1.10.in-addr.arpa.", Qtype: dns.TypePTR, Answer: []dns.RR{test.PTR("1.0.1.10.in-addr.arpa. 5 IN PTR db-a-0.db.shop.svc.cluster.local.")}}},
		{on, test.Case{Qname: "nobody.shop.svc.cluster.local.", Qtype: dns.TypeA, Rcode: dns.RcodeNameError, Ns: []dns.RR{test.SOA(soa)}}},
	} {
		rec := dnstest.NewRecorder(&test.ResponseWriter{})
		g := plugged(c.cfg)
		if _, err := g.ServeDNS(context.Background(), rec, c.Msg()); err != nil {
			t.Errorf("%s: %v", c.Qname, err)
			continue
		}
		for _, rr := range rec.Msg.Ns {
			if s, ok := rr.(*dns.SOA); ok {
				s.Serial = 0
			}
		}
		if err := test.SortAndCheck(rec.Msg, c.Case); err != nil {
			t.Errorf("%s %s, services %v: %v\n%s", c.Qname, dns.TypeToString[c.Qtype], c.cfg.Services, err, rec.Msg)
		}
	}
}

// A name of no Service is others' to answer, and does not exist where they
// cannot: a client's search goes on. A name of somebody else's Service is not
// denied.
func TestNotFound(t *testing.T) { synctest.Test(t, notFound) }

func notFound(t *testing.T) {
	upstream := func(rcode int, write bool, err error) plugin.Handler {
		return plugin.HandlerFunc(func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
			if write {
				return rcode, w.WriteMsg(new(dns.Msg).SetRcode(r, rcode))
			}
			return rcode, err
		})
	}
	const web, outside = "www.web.shop.svc.cluster.local.", "outside.shop.svc.cluster.local."
	const missing, deep = "web.shop.shop.svc.cluster.local.", "a.b.c.web.shop.svc.cluster.local."
	for _, c := range []struct {
		name     string
		next     plugin.Handler
		services bool
		want     int
	}{
		{missing, upstream(dns.RcodeServerFailure, false, errors.New("no upstream")), true, dns.RcodeNameError},
		{missing, upstream(dns.RcodeServerFailure, true, nil), true, dns.RcodeNameError},
		{missing, nil, true, dns.RcodeNameError},
		{deep, upstream(dns.RcodeServerFailure, false, nil), true, dns.RcodeNameError},
		{missing, upstream(dns.RcodeSuccess, true, nil), true, dns.RcodeSuccess},
		{missing, upstream(dns.RcodeNameError, true, nil), true, dns.RcodeNameError},
		{missing, upstream(dns.RcodeRefused, true, nil), true, dns.RcodeNameError},
		{missing, plugin.HandlerFunc(func(ctx context.Context, _ dns.ResponseWriter, _ *dns.Msg) (int, error) {
			<-ctx.Done() // away
			return dns.RcodeServerFailure, ctx.Err()
		}), true, dns.RcodeNameError},
		{missing, plugin.HandlerFunc(func(context.Context, dns.ResponseWriter, *dns.Msg) (int, error) { panic("a plugin's fault") }), true, dns.RcodeNameError},
		{"nowhere.svc.cluster.local.", upstream(dns.RcodeServerFailure, false, nil), true, dns.RcodeNameError},
		{"shop.svc.cluster.local.", upstream(dns.RcodeServerFailure, false, nil), true, dns.RcodeServerFailure},
		{"www.example.org.cluster.local.", upstream(dns.RcodeServerFailure, false, nil), true, dns.RcodeNameError},
		{"10-1-0-1.shop.pod.cluster.local.", upstream(dns.RcodeServerFailure, false, nil), true, dns.RcodeServerFailure},
		{"dns-version.cluster.local.", upstream(dns.RcodeServerFailure, false, nil), true, dns.RcodeServerFailure},
		{"cluster.local.", upstream(dns.RcodeServerFailure, false, nil), true, dns.RcodeServerFailure},
		{"9.9.9.10.in-addr.arpa.", upstream(dns.RcodeServerFailure, false, nil), true, dns.RcodeServerFailure},
		{missing, upstream(dns.RcodeServerFailure, false, nil), false, dns.RcodeServerFailure},
		{outside, upstream(dns.RcodeServerFailure, false, nil), true, dns.RcodeServerFailure},
		{"example.org.", upstream(dns.RcodeServerFailure, false, nil), true, dns.RcodeServerFailure},
		{web, upstream(dns.RcodeSuccess, true, nil), true, dns.RcodeNameError},
	} {
		g := plugged(answer.Config{Services: c.services})
		g.Next = c.next
		rec := dnstest.NewRecorder(&test.ResponseWriter{})
		ctx, cancel := context.WithTimeout(context.Background(), 5*nextTimeout)
		got, _ := g.ServeDNS(ctx, rec, new(dns.Msg).SetQuestion(c.name, dns.TypeA))
		cancel()
		if rec.Msg != nil {
			got = rec.Msg.Rcode
		}
		if got != c.want {
			t.Errorf("%s, services %v: %s, want %s", c.name, c.services, dns.RcodeToString[got], dns.RcodeToString[c.want])
		}
		if got == dns.RcodeNameError && rec.Msg.Authoritative && len(rec.Msg.Ns) != 1 {
			t.Errorf("%s: no SOA in\n%s", c.name, rec.Msg)
		}
	}
}

// What others alone have answered for is not denied while they are away: a
// cache in front would take that for news. What they denied is, and so is what
// they never had.
func TestKnownToOthers(t *testing.T) {
	g, rcode := plugged(answer.Config{Services: true}), dns.RcodeSuccess
	g.Next = plugin.HandlerFunc(func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
		return rcode, w.WriteMsg(new(dns.Msg).SetRcode(r, rcode))
	})
	const name, other = "extra.cluster.local.", "other.cluster.local."
	ask := func(name string, qtype uint16, others, want int) {
		t.Helper()
		rcode = others
		rec := dnstest.NewRecorder(&test.ResponseWriter{})
		got, err := g.ServeDNS(context.Background(), rec, new(dns.Msg).SetQuestion(name, qtype))
		if rec.Msg != nil {
			got = rec.Msg.Rcode
		}
		if err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", name, dns.RcodeToString[got], err, dns.RcodeToString[want])
		}
	}
	ask(name, dns.TypeA, dns.RcodeServerFailure, dns.RcodeNameError)
	ask(name, dns.TypeA, dns.RcodeSuccess, dns.RcodeSuccess)
	ask("EXTRA.cluster.local.", dns.TypeA, dns.RcodeServerFailure, dns.RcodeServerFailure)
	ask(name, dns.TypeAAAA, dns.RcodeServerFailure, dns.RcodeServerFailure) // a name exists for all types
	ask(other, dns.TypeA, dns.RcodeServerFailure, dns.RcodeNameError)
	ask(name, dns.TypeA, dns.RcodeNameError, dns.RcodeNameError)
	ask(name, dns.TypeA, dns.RcodeServerFailure, dns.RcodeNameError)
	for i := range 3 * maxKnown {
		g.known.set(fmt.Sprint(i), true)
	}
	if n := len(g.known.names); n != maxKnown {
		t.Errorf("%d names are known, want %d", n, maxKnown)
	}
}

// A grid's Service that others know first: their answer, of all units, is not
// given to anybody.
func TestNextKnowsFirst(t *testing.T) { synctest.Test(t, nextKnowsFirst) }

func nextKnowsFirst(t *testing.T) {
	const name = "db.shop.svc.cluster.local."
	all := plugin.HandlerFunc(func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
		m := new(dns.Msg).SetReply(r)
		m.Answer = []dns.RR{test.A(name + " 5 IN A 10.1.0.1"), test.A(name + " 5 IN A 10.1.1.1")}
		return dns.RcodeSuccess, w.WriteMsg(m)
	})
	for _, c := range []struct {
		later *topology.Snapshot // what the node learns
		want  int
	}{{units(), 1}, {nil, 2}} {
		g := plugged(answer.Config{Services: true})
		g.Next = all
		g.publish(topology.NewBuilder().Build(), fromSource) // nothing is known yet
		var wg sync.WaitGroup
		if c.later != nil {
			wg.Go(func() { time.Sleep(catchUpTimeout / 5); g.publish(c.later, fromSource) })
		}
		rec := dnstest.NewRecorder(&test.ResponseWriter{})
		start := time.Now()
		if _, err := g.ServeDNS(context.Background(), rec, new(dns.Msg).SetQuestion(name, dns.TypeA)); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if len(rec.Msg.Answer) != c.want {
			t.Errorf("after %s: %s", time.Since(start), rec.Msg)
		}
		if took := time.Since(start); took > 5*catchUpTimeout {
			t.Errorf("it took %s", took)
		}
	}
}

// A disk that is full, and then is not: the snapshot is written after all.
func TestSnapshotIsTriedAgain(t *testing.T) { synctest.Test(t, snapshotIsTriedAgain) }

func snapshotIsTriedAgain(t *testing.T) {
	g, before := plugged(answer.Config{}), counted(t, "coredns_grid_snapshot_errors_total")
	cell := &source.Snapshots{}
	cell.Publish(units())
	dir := t.TempDir()
	g.feed, g.cfg.snapshot = fed{cell}, filepath.Join(dir, "not yet", "dns.v1")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); g.follow(ctx) }()
	defer func() { cancel(); <-ended }()
	wait := func(what string, done func() bool) {
		t.Helper()
		for begin := time.Now(); !done(); time.Sleep(10 * time.Millisecond) {
			if time.Since(begin) > 5*snapshotEvery {
				t.Fatal(what)
			}
		}
	}
	wait("no failure was counted", func() bool { return counted(t, "coredns_grid_snapshot_errors_total") > before })
	if err := os.Mkdir(filepath.Join(dir, "not yet"), 0o700); err != nil {
		t.Fatal(err)
	}
	wait("the snapshot was not written", func() bool { _, err := os.Stat(g.cfg.snapshot); return err == nil })
}

// counted is the value of a counter of this process.
func counted(t *testing.T, name string) (n float64) {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// fed is a source that has all that it will have.
type fed struct{ *source.Snapshots }

func (fed) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// However many ask for names that nobody answers for, few wait for the next plugin.
func TestNotFoundInBulk(t *testing.T) { synctest.Test(t, notFoundInBulk) }

func notFoundInBulk(t *testing.T) {
	const questions = 3000
	g := plugged(answer.Config{Services: true})
	var asked atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	g.Next = plugin.HandlerFunc(func(ctx context.Context, _ dns.ResponseWriter, _ *dns.Msg) (int, error) {
		asked.Add(1)
		<-ctx.Done() // away
		return dns.RcodeServerFailure, ctx.Err()
	})
	start := time.Now()
	var wg sync.WaitGroup
	for range questions {
		wg.Go(func() {
			rec := dnstest.NewRecorder(&test.ResponseWriter{})
			_, err := g.ServeDNS(ctx, rec, new(dns.Msg).SetQuestion("nobody.shop.svc.cluster.local.", dns.TypeA))
			if err != nil || rec.Msg != nil && rec.Msg.Rcode != dns.RcodeNameError {
				t.Errorf("%v: %s", err, rec.Msg)
			}
		})
	}
	wg.Wait()
	if m := asks(g, "10.240.0.1", "nobody.shop.svc.cluster.local."); m != dns.RcodeNameError {
		t.Errorf("while others are known to be away: %s", dns.RcodeToString[m])
	}
	t.Logf("%d questions in %s, others were asked %d", questions, time.Since(start), asked.Load())
	if took := time.Since(start); took > 5*nextTimeout || asked.Load() > maxClient {
		t.Errorf("others were asked %d times, and it took %s", asked.Load(), took)
	}
	cancel()
	synctest.Wait()
	if n := g.pending.total + len(g.pending.client); n > 0 {
		t.Fatalf("%d questions are still under way", n)
	}
}

// A restart without a source answers from the snapshot; a truncated one is
// refused, and all goes to the next plugin.
func TestSnapshot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dns.v1")
	keeper := source.NewKeeper(path, time.Second)
	if err := keeper.Write(&source.State{Snapshot: units()}, time.Now()); err != nil {
		t.Fatal(err)
	}
	ask := func() (*Grid, int) {
		g := plugged(answer.Config{})
		g.now.Store(nil)
		g.cfg.snapshot = path
		g.takeSnapshot(<-openSnapshot(path, realDisk).read)
		rec := dnstest.NewRecorder(&test.ResponseWriter{})
		q := new(dns.Msg).SetQuestion("db-0.db.shop.svc.cluster.local.", dns.TypeA)
		if _, err := g.ServeDNS(context.Background(), rec, q); err != nil {
			t.Fatal(err)
		}
		if rec.Msg.Rcode == dns.RcodeSuccess && !strings.Contains(rec.Msg.Answer[0].String(), "10.1.0.1") {
			t.Errorf("%s", rec.Msg)
		}
		return g, rec.Msg.Rcode
	}
	if g, code := ask(); !g.Ready() || code != dns.RcodeSuccess {
		t.Errorf("from the snapshot: ready %v, %s", g.Ready(), dns.RcodeToString[code])
	}
	data, err := os.ReadFile(path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if g, code := ask(); g.Ready() || code != dns.RcodeRefused {
		t.Errorf("without a file: ready %v, %s", g.Ready(), dns.RcodeToString[code])
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 7, len(data) / 2, len(data) - 1} {
		if err := os.WriteFile(path, data[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if g, code := ask(); g.Ready() || code != dns.RcodeRefused {
			t.Errorf("%d of %d bytes: ready %v, %s", n, len(data), g.Ready(), dns.RcodeToString[code])
		}
	}
}
