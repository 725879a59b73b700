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

	"github.com/gridmesh/gridmesh/node/envoy"
	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/node/preload"
	"github.com/gridmesh/gridmesh/node/report"
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
func (r *rig) askStatus(t *testing.T) (got report.Report, text string) {
	t.Helper()
	w := httptest.NewRecorder()
	r.agent.statusMux().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/status", nil).WithContext(t.Context()))
	must(t, json.NewDecoder(w.Body).Decode(&got))
	var out bytes.Buffer
	must(t, got.WriteText(&out, time.Now()))
	return got, out.String()
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
			"ejected     1 of 1 endpoints of default/other (10.96.0.11:80): 10.244.2.6:8080 (unhealthy, as Envoy was told)\n" +
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
		if _, text := r.askStatus(t); r.log.Count(words) > 0 || strings.Contains(text, words) {
			t.Errorf("news of an Envoy that is not there: %s", text)
		}
		r.xds.Connect("1.40.0")
		r.envoy.Fail(errors.New("permission denied"))
		after(time.Hour)
		if n := r.log.Count(words); n != 1 {
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
		after(envoy.AnswerWithin)
		start := time.Now()
		_, text := r.askStatus(t)
		if took := time.Since(start); took > statusWaits || !strings.Contains(text, "is slow to answer; ejections are those of") {
			t.Errorf("an Envoy that hangs: %s, after %s", text, took)
		}
		if after(envoy.AnswerWithin); r.log.Count(words) != 2 {
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

// An Envoy that takes no more connections says so in the status, the metrics
// and the log, and what it refused long ago is no news.
func TestAnOverloadedEnvoyIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := asked(t, webOnly())
		for _, step := range []struct {
			load  admin.Overload
			newly uint64
			want  string // of the status
			logs  int    // so far
		}{
			{admin.Overload{Connections: 7}, 0, "7 connections of clients are open\n", 0},
			{admin.Overload{Connections: 1638, Refused: 12, Heap: 60}, 12, "it has as many as --envoy-heap-limit leaves room for; 12 were refused since its start, 12 of them just now", 1},
			{admin.Overload{Connections: 9, Refused: 12, Heap: 40}, 0, "12 connections were refused since Envoy's start, none just now", 1},
			{admin.Overload{Connections: 3, Refused: 2, Heap: 97, Stopped: true}, 2, "its memory is full (97 % of --envoy-heap-limit)", 2}, // a new one
		} {
			r.envoy.Load(step.load)
			r.look()
			got, text := r.askStatusOnce(t)
			if got.Load == nil || got.Load.Overload != step.load || got.Load.Newly != step.newly || !strings.Contains(text, step.want) {
				t.Errorf("%+v: %+v\n%s", step.load, got.Load, text)
			}
			if n := r.log.Count("Envoy takes no more connections"); n != step.logs {
				t.Errorf("%+v: said %d times, want %d", step.load, n, step.logs)
			}
			for name, want := range map[string]float64{
				"gridmesh_envoy_open_connections": float64(step.load.Connections), "gridmesh_envoy_refused_connections_total": float64(step.load.Refused),
				"gridmesh_envoy_heap_ratio": float64(step.load.Heap) / 100,
			} {
				if got := r.metric(t, name); got != want {
					t.Errorf("%s is %v, want %v", name, got, want)
				}
			}
		}
		r.envoy.Fail(errBroken)
		r.look()
		if got := r.agent.status(); got.Load != nil {
			t.Errorf("known from an Envoy that does not answer: %+v", got.Load)
		}
	})
}

// askStatusOnce is the status as it is, in both forms: nothing is asked for it.
func (r *rig) askStatusOnce(t *testing.T) (report.Report, string) {
	t.Helper()
	got := r.agent.status()
	var text strings.Builder
	must(t, got.WriteText(&text, got.Ejections.At))
	return got, text.String()
}
