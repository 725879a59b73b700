package envoy

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gridmesh/gridmesh/internal/latest"
	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds/admin"
	"github.com/gridmesh/gridmesh/xds/render"
)

const webCluster = "10.96.0.10:80"

// rig asks a twin of Envoy, and shows metrics of what it says.
type rig struct {
	twin    nodetest.Envoy
	asker   *Asker
	looks   latest.Value[*Look]
	metrics *prometheus.Registry
	known   *InForce
}

func newRig(t *testing.T, o *nodetest.Objects) *rig {
	t.Helper()
	r := &rig{metrics: prometheus.NewRegistry()}
	r.asker = NewAsker(&r.twin)
	if err := r.metrics.Register(NewMetrics(&r.looks)); err != nil {
		t.Fatal(err)
	}
	r.act(o)
	return r
}

// act puts what is served into force.
func (r *rig) act(o *nodetest.Objects) {
	view := topology.NewViewer("a-1", topology.Options{}).See(o.Snapshot())
	catalog, _ := render.NewCataloger(render.Default(), 500).Next(view, false)
	r.known = &InForce{View: view, Catalog: catalog}
}

func (r *rig) look(t *testing.T, list ...admin.Cluster) *Look {
	t.Helper()
	r.twin.Say(list...)
	return r.again(t)
}

// again asks once more for what was said last.
func (r *rig) again(t *testing.T) *Look {
	t.Helper()
	look := r.asker.Look(t.Context(), r.known)
	r.looks.Publish(look)
	return look
}

// closely is again, for somebody who reads which endpoints are ejected.
func (r *rig) closely(t *testing.T) *Look {
	t.Helper()
	look := r.asker.LookClosely(t.Context(), r.known)
	r.looks.Publish(look)
	return look
}

// byService is a metric by its label service.
func (r *rig) byService(t *testing.T, name string) map[string]float64 {
	t.Helper()
	families, err := r.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				got[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return got
}

// web is a closed Service of unit a.
func web() *nodetest.Objects {
	o := nodetest.NewObjects()
	o.Closed("web", "10.96.0.10", map[string]string{"a-2": "10.244.2.5"})
	return o
}

// used is a cluster with one endpoint and what became of connections to it.
func used(cluster string, connections, active uint64) admin.Cluster {
	return admin.Cluster{Name: cluster, Endpoints: []admin.Endpoint{{Address: netip.MustParseAddrPort("10.244.2.5:8080"), Connections: connections, Active: active}}}
}

// Whatever Envoy holds, what is said of it stays short.
func TestEjectionsAreBounded(t *testing.T) {
	o := nodetest.NewObjects()
	var list []admin.Cluster
	for i := range 2 * maxEjections {
		ip := fmt.Sprintf("10.96.1.%d", i+1)
		o.Closed(fmt.Sprintf("s%02d", i), ip, map[string]string{"a-2": "10.244.2.5"})
		c := admin.Cluster{Name: ip + ":80"}
		for j := range 3 * maxEjected {
			c.Endpoints = append(c.Endpoints, admin.Endpoint{Address: netip.MustParseAddrPort(fmt.Sprintf("10.244.2.%d:80", j)), Ejected: true})
		}
		list = append(list, c)
	}
	slices.Reverse(list)
	r := newRig(t, o)
	r.twin.Say(list...)
	e := r.closely(t).Ejections
	if len(e.List) != maxEjections || e.More != maxEjections || e.List[0].Service != "default/s00" {
		t.Fatalf("%d are listed, %d more: %+v", len(e.List), e.More, e.List[0])
	}
	if first := e.List[0]; len(first.Endpoints) != maxEjected || first.Out != 3*maxEjected || first.Of != 3*maxEjected {
		t.Errorf("of one %d are listed, %d of %d are out", len(first.Endpoints), first.Out, first.Of)
	}
}

// Whatever answers at the socket, what is told of it stays short, and moves no terminal's cursor.
func TestWhatIsNoEnvoyIsToldBriefly(t *testing.T) {
	absurd := strings.Repeat("\x1b[2Jy", 10_000)
	for name, answer := range map[string]string{
		"no answer of HTTP": absurd + "\r\n\r\n",
		"a status":          "HTTP/1.1 500 " + absurd + "\r\nContent-Length: 0\r\n\r\n",
		"a line of it":      "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + absurd + "\n",
		"a line of bytes":   "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + strings.Repeat("\xff", 200) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "envoy") // t.TempDir may be too long for a socket
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			l, err := net.Listen("unix", filepath.Join(dir, "admin.sock"))
			if err != nil {
				t.Fatal(err)
			}
			var served sync.WaitGroup
			served.Go(func() {
				for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
					_, _ = conn.Read(make([]byte, 4096))
					_, _ = conn.Write([]byte(answer))
					_ = conn.Close()
				}
			})
			look := NewAsker(admin.New(l.Addr().String())).Look(t.Context(), nil)
			_ = l.Close()
			served.Wait()
			if look.Err == nil {
				t.Fatal("it is taken for an Envoy")
			}
			for _, text := range []string{look.Err.Error(), look.Ejections.Error} {
				if len(text) > mostSaid+len(" …") || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
					t.Errorf("%d bytes are told: %.100q", len(text), text)
				}
			}
			t.Log(look.Err)
		})
	}
}

// Connections are counted by Service, of a bounded number: others share one
// counter, until a Service is gone or idle.
func TestConnectionsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := web()
		var all []admin.Cluster
		for i := range maxCounted + 20 {
			ip := fmt.Sprintf("10.96.1.%d", i+1)
			o.Closed(fmt.Sprintf("s%03d", i), ip, map[string]string{"a-2": "10.244.2.5"})
			all = append(all, used(ip+":80", 1, 0))
		}
		r := newRig(t, o)
		const total, open = "gridmesh_service_connections_total", "gridmesh_service_open_connections"
		failing := used(webCluster, 7, 2)
		failing.Endpoints[0].Failed = 3
		r.look(t, failing, used("10.96.9.9:80", 5, 5)) // the second is no Service's
		if got := r.byService(t, total); len(got) != 1 || got["default/web"] != 7 {
			t.Errorf("connections: %v", got)
		}
		if got := r.byService(t, open); got["default/web"] != 2 || r.byService(t, "gridmesh_service_connection_failures_total")["default/web"] != 3 {
			t.Errorf("open: %v", got)
		}
		r.look(t, append(all, used(webCluster, 9, 0))...)
		got := r.byService(t, total)
		if len(got) != maxCounted+1 || got["default/web"] != 9 || got[otherServices] != 21 {
			t.Errorf("%d Services have counters, web %v, others %v", len(got), got["default/web"], got[otherServices])
		}
		o.Delete("web")
		r.act(o)
		r.look(t, all...)
		r.look(t, all...)
		if got := r.byService(t, total); len(got) != maxCounted || got["default/web"] != 0 {
			t.Errorf("web is gone: %d Services have counters, web %v", len(got), got["default/web"])
		}
		last := len(all) - 1
		all[last] = used(all[last].Name, 2, 1)
		for end := time.Now().Add(2 * countIdle); time.Now().Before(end); time.Sleep(countIdle / 10) {
			r.look(t, all...)
		}
		if got := r.byService(t, open); len(got) != 2 || got["default/s119"] != 1 {
			t.Errorf("all but one are idle: %v", got)
		}
		r.twin.Fail(fs.ErrNotExist)
		r.again(t)
		if open, total := r.byService(t, open), r.byService(t, total); len(open) > 0 || len(total) != 2 {
			t.Errorf("without Envoy %v are open, %v were", open, total)
		}
	})
}

// What Envoy did and refused before it was first asked is old news, and so is what
// one before it counted.
func TestOldNews(t *testing.T) {
	r := newRig(t, web())
	for _, step := range []struct {
		connections, refused uint64
		used                 bool
		newly                uint64
	}{{9, 5, false, 0}, {9, 5, false, 0}, {10, 7, true, 2}, {10, 7, false, 0}, {10, 3, false, 3}} {
		r.twin.Load(admin.Overload{Refused: step.refused})
		got := r.look(t, used(webCluster, step.connections, 0))
		if (len(got.InUse) > 0) != step.used || got.Load.Newly != step.newly {
			t.Errorf("%+v: in use are %q, newly refused %d", step, got.InUse, got.Load.Newly)
		}
	}
}

// Before the first view nothing is anybody's; an Envoy that hangs is waited for no
// longer than that, and what it does not say at the end is no failure.
func TestAnAnswerThatDoesNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, web())
		known := r.known
		r.known = nil
		end := used(webCluster, 1, 1)
		end.Endpoints[0].Ejected = true
		if got := r.look(t, end); got.Err != nil || len(got.Ejections.List) > 0 || len(got.InUse) > 0 {
			t.Errorf("before the first view: %+v", got)
		}
		r.known = known
		said := r.look(t, end)
		if len(said.Ejections.List) != 1 {
			t.Fatalf("got %+v", said)
		}
		r.twin.Slow(time.Hour)
		start := time.Now()
		got := r.again(t)
		if got.Err == nil || time.Since(start) != AnswerWithin || got.Load != nil || !got.Ejections.At.Equal(said.Ejections.At) || len(got.Ejections.List) > 0 {
			t.Errorf("after %s: %+v", time.Since(start), got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if got := r.asker.Look(ctx, r.known); got != nil {
			t.Errorf("at the end: %+v", got)
		}
	})
}

// ejecting has a cluster of two endpoints, of which one is ejected.
func ejecting(connections uint64) admin.Cluster {
	c := used(webCluster, connections, 0)
	c.Endpoints = append(c.Endpoints, admin.Endpoint{Address: netip.MustParseAddrPort("10.244.2.6:8080"), Ejected: true})
	return c
}

// Telling all that it holds keeps Envoy from taking updates: it is asked for
// that where somebody wants to know, where there is something to know, and not
// again and again.
func TestEnvoyIsSeldomAskedForAllThatItHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, web())
		r.twin.Say(used(webCluster, 1, 0))
		r.closely(t)
		if n := r.twin.Listed(); n > 0 {
			t.Errorf("nothing is ejected: asked %d times", n)
		}
		got := r.look(t, ejecting(2))
		if e := got.Ejections.List; r.twin.Listed() > 0 || got.out != 1 || len(e) != 1 || e[0].Service != "default/web" || e[0].Out != 1 || e[0].Of != 1 || len(e[0].Endpoints) > 0 {
			t.Errorf("nobody wants to know which: asked %d times, %+v", r.twin.Listed(), e)
		}
		r.twin.Slow(time.Second)
		ends := func() int { return len(r.closely(t).Ejections.List[0].Endpoints) }
		for _, step := range []struct {
			after        time.Duration
			ends, listed int
		}{{0, 1, 1}, {0, 0, 1}, {10 * time.Second, 0, 1}, {10 * time.Second, 1, 2}, {time.Hour, 1, 3}} {
			time.Sleep(step.after)
			if n := ends(); n != step.ends || r.twin.Listed() != step.listed {
				t.Errorf("%s later: %d endpoints, asked %d times; want %d, %d", step.after, n, r.twin.Listed(), step.ends, step.listed)
			}
		}
	})
}

// One that does not count by cluster, for its bootstrap is of before, is asked for
// all that it holds, the more seldom the longer that takes it; what it said stands
// until then.
func TestAnEnvoyThatDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, web())
		r.twin.Old()
		r.look(t, ejecting(2))
		if got := r.look(t, ejecting(3)); !slices.Equal(got.InUse, []string{webCluster}) || got.out != 1 || len(got.Ejections.List) != 1 || len(got.Ejections.List[0].Endpoints) != 1 {
			t.Errorf("got %+v", got)
		}
		r.twin.Slow(time.Second)
		said := r.again(t).Ejections.At
		asked := r.twin.Listed()
		time.Sleep(time.Minute)
		r.twin.Load(admin.Overload{Connections: 7})
		got := r.look(t, used(webCluster, 5, 1))
		if r.twin.Listed() != asked || len(got.InUse) > 0 || got.out != 1 || !got.Ejections.At.Equal(said) || got.Load.Connections != 7 {
			t.Errorf("a minute later: asked %d times more, %+v", r.twin.Listed()-asked, got)
		}
		time.Sleep(time.Minute)
		got = r.again(t)
		if r.twin.Listed() != asked+1 || len(got.InUse) != 1 || got.out != 0 || got.totals["default/web"] != (admin.Counters{Connections: 5, Active: 1}) {
			t.Errorf("two minutes later: asked %d times more, %+v", r.twin.Listed()-asked, got)
		}
	})
}
