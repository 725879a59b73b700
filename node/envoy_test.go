package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/node/preload"
	"github.com/gridmesh/gridmesh/node/statedir"
	"github.com/gridmesh/gridmesh/xds/admin"
)

// ofEnvoy is a cluster with one endpoint and what became of connections to it.
func ofEnvoy(cluster string, connections, active uint64) admin.Cluster {
	return admin.Cluster{Name: cluster, Endpoints: []admin.Endpoint{{Address: netip.MustParseAddrPort("10.244.2.5:8080"), Connections: connections, Active: active}}}
}

// asked is a rig whose Envoy is asked what only it knows.
func asked(t *testing.T, o *nodetest.Objects) *rig {
	t.Helper()
	r := newRig(t)
	r.envoy = &nodetest.Envoy{}
	r.mustStart(t)
	r.publish(o)
	return r
}

// look lets the agent ask Envoy.
func (r *rig) look() { after(askEnvoyPause + preload.LookEvery*5/4) }

// askStatus asks as gridmesh-agent status does.
func (r *rig) askStatus(t *testing.T) (report Report, text string) {
	t.Helper()
	w := httptest.NewRecorder()
	r.agent.statusMux().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/status", nil).WithContext(t.Context()))
	must(t, json.NewDecoder(w.Body).Decode(&report))
	var out bytes.Buffer
	must(t, report.WriteText(&out, time.Now()))
	return report, out.String()
}

// byService is a metric by its label service.
func (r *rig) byService(t *testing.T, name string) map[string]float64 {
	t.Helper()
	families, err := r.agent.parts.Registry.Gather()
	must(t, err)
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != name {
				continue
			}
			service := ""
			for _, l := range m.GetLabel() {
				service = l.GetValue()
			}
			got[service] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return got
}

// What Envoy leaves alone for some seconds is shown to who asks just then, and
// who asks does not wait for the next regular look.
func TestStatusShowsEjections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := asked(t, webAndOther())
		end := func(ip string, ejected, unhealthy bool) admin.Endpoint {
			return admin.Endpoint{Address: netip.MustParseAddrPort(ip + ":8080"), Ejected: ejected, Unhealthy: unhealthy}
		}
		r.envoy.Say(
			admin.Cluster{Name: "10.96.0.11:80", Endpoints: []admin.Endpoint{end("10.244.2.6", false, true)}},
			admin.Cluster{Name: "10.96.0.99:80", Endpoints: []admin.Endpoint{end("10.244.2.9", true, false)}}, // no Service's any more
			admin.Cluster{Name: webCluster, Endpoints: []admin.Endpoint{end("10.244.2.5", false, false), end("10.244.1.5", true, false)}},
		)
		start := time.Now()
		report, text := r.askStatus(t)
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("the status took %s", took)
		}
		if report.Ejections == nil || len(report.Ejections.List) != 2 || !report.Ejections.At.Equal(time.Now()) {
			t.Fatalf("got %+v", report.Ejections)
		}
		for _, want := range []string{
			"ejected     1 of 1 endpoints of default/other (10.96.0.11:80): 10.244.2.6:8080 (dead, says the agent)\n" +
				"ejected     1 of 2 endpoints of default/web (10.96.0.10:80): 10.244.1.5:8080\n",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
		if got := r.metric(t, "gridmesh_ejected_endpoints"); got != 2 {
			t.Errorf("%v are counted as ejected", got)
		}
		r.envoy.Say(admin.Cluster{Name: webCluster, Endpoints: []admin.Endpoint{end("10.244.1.5", false, false)}})
		if report, text := r.askStatus(t); len(report.Ejections.List) > 0 || strings.Contains(text, "ejected") {
			t.Errorf("it is over: %s", text)
		}
	})
}

// Whatever Envoy holds, a status stays short.
func TestEjectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
		r := asked(t, o)
		r.envoy.Say(list...)
		report, text := r.askStatus(t)
		e := report.Ejections
		if len(e.List) != maxEjections || e.More != maxEjections || e.List[0].Service != "default/s00" {
			t.Fatalf("%d are listed, %d more: %+v", len(e.List), e.More, e.List[0])
		}
		if first := e.List[0]; len(first.Endpoints) != maxEjected || first.Out != 3*maxEjected || first.Of != 3*maxEjected {
			t.Errorf("of one %d are listed, %d of %d are out", len(first.Endpoints), first.Out, first.Of)
		}
		if !strings.Contains(text, "and 20 more") || !strings.Contains(text, "endpoints of 20 more clusters") {
			t.Errorf("got %s", text)
		}
	})
}

// An Envoy that is not there is no news; one that is, and cannot be asked, is
// told of once.
func TestAnEnvoyThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := asked(t, webOnly())
		const words = "admin socket gives no answer"
		r.xds.Disconnect()
		r.envoy.Fail(fs.ErrNotExist)
		before := r.envoy.Asked()
		after(time.Hour)
		if n := r.envoy.Asked() - before; n < 90 || n > 121 {
			t.Errorf("it was asked %d times in an hour", n)
		}
		if _, text := r.askStatus(t); r.log.count(words) > 0 || strings.Contains(text, words) {
			t.Errorf("news of an Envoy that is not there: %s", text)
		}
		r.xds.Connect("1.40.0")
		r.envoy.Fail(errors.New("permission denied"))
		after(time.Hour)
		if n := r.log.count(words); n != 1 {
			t.Errorf("told %d times", n)
		}
		if _, text := r.askStatus(t); !strings.Contains(text, words+" for 2h0m") || !strings.Contains(text, "permission denied") {
			t.Errorf("the status says\n%s", text)
		}
		r.envoy.Say()
		if _, text := r.askStatus(t); strings.Contains(text, "admin socket") {
			t.Errorf("it answers again: %s", text)
		}
		r.envoy.Slow(time.Hour)
		after(askEnvoyFor)
		start := time.Now()
		_, text := r.askStatus(t)
		if took := time.Since(start); took > statusWaits || !strings.Contains(text, "is slow to answer; ejections are those of") {
			t.Errorf("an Envoy that hangs: %s, after %s", text, took)
		}
		if after(askEnvoyFor); r.log.count(words) != 2 {
			t.Error("that it hangs is not told")
		}
		// Neither the loop nor the health waits for it.
		r.wantHealthy(t, "hanging", true)
		r.publish(webAndOther())
		r.wantServed(t, "hanging", webFrontend, otherFrontend)
	})
}

// Statuses in a row do not make Envoy write megabytes in a row.
func TestManyStatusesAskEnvoyOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := asked(t, webOnly())
		after(askEnvoyPause)
		before, start := r.envoy.Asked(), time.Now()
		for range 100 {
			r.askStatus(t)
		}
		if n, most := r.envoy.Asked()-before, int(time.Since(start)/askEnvoyPause)+1; n > most {
			t.Errorf("asked %d times in %s", n, time.Since(start))
		}
	})
}

// Connections are counted by Service, of a bounded number: others share one
// counter, until a Service is gone or idle.
func TestConnectionsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := webOnly()
		var all []admin.Cluster
		for i := range maxCounted + 20 {
			ip := fmt.Sprintf("10.96.1.%d", i+1)
			o.Closed(fmt.Sprintf("s%03d", i), ip, map[string]string{"a-2": "10.244.2.5"})
			all = append(all, ofEnvoy(ip+":80", 1, 0))
		}
		r := asked(t, o)
		const total, open = "gridmesh_service_connections_total", "gridmesh_service_open_connections"
		look := func(list ...admin.Cluster) {
			r.envoy.Say(list...)
			r.look()
		}
		failing := ofEnvoy(webCluster, 7, 2)
		failing.Endpoints[0].Failed = 3
		look(failing, ofEnvoy("10.96.9.9:80", 5, 5)) // the second is no Service's
		if got := r.byService(t, total); len(got) != 1 || got["default/web"] != 7 {
			t.Errorf("connections: %v", got)
		}
		if got := r.byService(t, open); got["default/web"] != 2 || r.byService(t, "gridmesh_service_connection_failures_total")["default/web"] != 3 {
			t.Errorf("open: %v", got)
		}
		look(append(all, ofEnvoy(webCluster, 9, 0))...)
		got := r.byService(t, total)
		if len(got) != maxCounted+1 || got["default/web"] != 9 || got[otherServices] != 21 {
			t.Errorf("%d Services have counters, web %v, others %v", len(got), got["default/web"], got[otherServices])
		}
		o.Delete("web")
		r.publish(o)
		look(all...)
		look(all...)
		if got := r.byService(t, total); len(got) != maxCounted || got["default/web"] != 0 {
			t.Errorf("web is gone: %d Services have counters, web %v", len(got), got["default/web"])
		}
		last := len(all) - 1
		all[last] = ofEnvoy(all[last].Name, 2, 1)
		for end := time.Now().Add(2 * countIdle); time.Now().Before(end); {
			look(all...)
		}
		if got := r.byService(t, open); len(got) != 2 || got["default/s119"] != 1 {
			t.Errorf("all but one are idle: %v", got)
		}
		r.envoy.Fail(fs.ErrNotExist)
		r.look()
		if open, total := r.byService(t, open), r.byService(t, total); len(open) > 0 || len(total) != 2 {
			t.Errorf("without Envoy %v are open, %v were", open, total)
		}
	})
}

// What has connections is kept as used, without Envoy having to ask for it, and
// is preloaded after a restart; what it ever did before this agent began to look
// says nothing.
func TestWhatHasConnectionsIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := nodetest.NewObjects()
		for i := range 4 {
			o.Plain(fmt.Sprint("far-", i), fmt.Sprintf("10.96.2.%d", i), map[string]string{"b-1": "10.244.9.7"})
		}
		cluster := func(i int) string { return fmt.Sprintf("10.96.2.%d:80", i) }
		r := newRig(t)
		r.envoy = &nodetest.Envoy{}
		r.envoy.Say(ofEnvoy(cluster(0), 9, 0))
		r.mustStart(t)
		r.publish(o)
		r.look()
		r.envoy.Say(ofEnvoy(cluster(0), 9, 0), ofEnvoy(cluster(1), 1, 0), ofEnvoy(cluster(2), 0, 0), ofEnvoy("10.96.9.9:80", 7, 7))
		r.look()
		if got := r.agent.status().Preloaded; got != 1 {
			t.Errorf("%d are preloaded, want the one that is used", got)
		}
		r.envoy.Say(ofEnvoy(cluster(0), 10, 0), ofEnvoy(cluster(1), 1, 0))
		r.look()
		for range 200 { // more than an hour
			r.look()
		}
		r.envoy.Say(ofEnvoy(cluster(0), 10, 0), ofEnvoy(cluster(1), 2, 1))
		r.look()
		after(statedir.SaveInterval)
		r.stop()
		if got := r.saved(t).Used; !slices.Equal(got, []string{cluster(0), cluster(1)}) {
			t.Errorf("saved as used, the latest last: %v", got)
		}
		r.again()
		r.mustStart(t)
		after(liveFirst)
		if _, holds := r.xds.Holds(cluster(1)); !holds {
			t.Error("not preloaded after a restart")
		}
	})
}

// What is let go is let go for good: it is not saved either.
func TestWhatIsLetGoIsNotSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := webOnly()
		o.Plain("far", "10.96.2.1", map[string]string{"b-1": "10.244.9.7"})
		r := asked(t, o)
		r.xds.Ask("10.96.2.1:80")
		synctest.Wait()
		o.Delete("far")
		r.publish(o)
		after(statedir.SaveInterval)
		if got := r.saved(t).Used; len(got) != 1 {
			t.Fatalf("saved as used: %v", got)
		}
		after(preload.Gone)
		r.look()
		after(statedir.SaveInterval)
		if got := r.saved(t).Used; len(got) > 0 {
			t.Errorf("saved as used: %v", got)
		}
	})
}
