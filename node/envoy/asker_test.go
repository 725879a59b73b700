package envoy

import (
	"context"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

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
	e := newRig(t, o).look(t, list...).Ejections
	if len(e.List) != maxEjections || e.More != maxEjections || e.List[0].Service != "default/s00" {
		t.Fatalf("%d are listed, %d more: %+v", len(e.List), e.More, e.List[0])
	}
	if first := e.List[0]; len(first.Endpoints) != maxEjected || first.Out != 3*maxEjected || first.Of != 3*maxEjected {
		t.Errorf("of one %d are listed, %d of %d are out", len(first.Endpoints), first.Out, first.Of)
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
