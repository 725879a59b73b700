package node

import (
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds"
	"github.com/gridmesh/gridmesh/xds/render"
)

// player is how a test plays the Envoy of a server.
type player interface {
	Connect(version string)
	Disconnect()
	// Ask asks for clusters by name.
	Ask(names ...string)
	// Refuse refuses a cluster from now on.
	Refuse(name, reason string)
	// Slow has Envoy answer nothing, or everything at once again.
	Slow(slow bool)
	// Holds returns the endpoints of a cluster that Envoy holds.
	Holds(name string) (endpoints []string, ok bool)
}

// xdsRig is a server, its Envoy, and what the server told.
type xdsRig struct {
	XDS
	player
	catalogs *render.Cataloger
	viewer   *topology.Viewer

	mu        sync.Mutex
	requested []string
	refused   []xds.Nack
}

func newXDSRig() *xdsRig {
	return &xdsRig{catalogs: render.NewCataloger(render.Default(), 500), viewer: topology.NewViewer("a-1", topology.Options{})}
}

func (r *xdsRig) request(names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requested = append(r.requested, names...)
}

func (r *xdsRig) refuse(n xds.Nack) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused = append(r.refused, n)
}

func (r *xdsRig) told() (requested []string, refused []xds.Nack) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requested), slices.Clone(r.refused)
}

func (r *xdsRig) publish(o *nodetest.Objects) {
	r.Update(r.catalogs.Next(r.viewer.See(o.Snapshot()), false))
}

// wantHolds waits until Envoy holds a cluster with exactly these endpoints.
func (r *xdsRig) wantHolds(t *testing.T, when, name string, want ...string) {
	t.Helper()
	eventually(t, when+": Envoy holds "+name, func() bool {
		got, ok := r.Holds(name)
		return ok && slices.Equal(got, want)
	})
}

// eventually waits for what other goroutines bring about.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func TestXDSTwinKeepsTheContract(t *testing.T) {
	xdsContract(t, func(*testing.T) *xdsRig {
		r := newXDSRig()
		twin := nodetest.NewXDS(nil, r.request, r.refuse)
		r.XDS, r.player = twin, twin
		return r
	})
}

func TestXDSKeepsTheContract(t *testing.T) {
	xdsContract(t, func(t *testing.T) *xdsRig {
		r := newXDSRig()
		server := xds.New(xds.Config{
			Log: slog.New(slog.DiscardHandler), Metrics: xds.NewMetrics(prometheus.NewRegistry()), Asked: r.request, Refused: r.refuse,
		})
		path := filepath.Join(t.TempDir(), "x")
		l, err := net.Listen("unix", path)
		must(t, err)
		g := grpc.NewServer()
		server.Register(g)
		ended := make(chan error, 1)
		go func() { ended <- g.Serve(l) }()
		e := newADSClient(t, path)
		t.Cleanup(func() { e.Disconnect(); g.Stop(); must(t, <-ended) })
		r.XDS, r.player = server, e
		return r
	})
}

// xdsContract is what the loop relies on.
func xdsContract(t *testing.T, make func(*testing.T) *xdsRig) {
	for name, run := range map[string]func(*testing.T, *xdsRig){
		"nobody is answered before the first catalog":       answersWait,
		"what is preloaded is held and follows":             preloadedFollows,
		"what is asked for is told, held, and only emptied": askedIsEmptied,
		"what is refused is told once and listed":           refusedIsTold,
		"what is kept is held, and then gone":               keptUntilReleased,
		"streams come and go":                               streamsComeAndGo,
		"its answer is awaited, however often in vain":      awaitedEachTime,
	} {
		t.Run(name, func(t *testing.T) { run(t, make(t)) })
	}
}

const webCluster, otherCluster, farCluster = "10.96.0.10:80", "10.96.0.11:80", "10.96.0.12:80"

func answersWait(t *testing.T, r *xdsRig) {
	r.Connect("1.40.0")
	r.Ask(otherCluster)
	if asked, _ := r.told(); len(asked) > 0 || len(r.Streams()) > 0 {
		t.Errorf("told of %v before there was a catalog", asked)
	}
	if _, ok := r.Holds(webCluster); ok {
		t.Error("answered before there was a catalog")
	}
	r.publish(webOnly())
	r.wantHolds(t, "first", webCluster, "10.244.2.5:8080")
	r.wantHolds(t, "asked before", otherCluster)
	eventually(t, "told of what was asked for", func() bool { asked, _ := r.told(); return slices.Contains(asked, otherCluster) })
}

func preloadedFollows(t *testing.T, r *xdsRig) {
	r.publish(webOnly())
	r.Connect("1.40.0")
	r.wantHolds(t, "first", webCluster, "10.244.2.5:8080")
	o := webAndOther()
	o.Closed("web", "10.96.0.10", map[string]string{"a-1": "10.244.1.5"})
	r.publish(o)
	r.wantHolds(t, "changed", webCluster, "10.244.1.5:8080")
	r.wantHolds(t, "added", otherCluster, "10.244.2.6:8080")
	if asked, _ := r.told(); len(asked) > 0 {
		t.Errorf("told of %v, which nobody asked for", asked)
	}
}

func askedIsEmptied(t *testing.T, r *xdsRig) {
	o := webOnly()
	o.Plain("far", "10.96.0.12", map[string]string{"b-1": "10.244.9.7"})
	r.publish(o)
	r.Connect("1.40.0")
	r.wantHolds(t, "first", webCluster, "10.244.2.5:8080")
	if _, ok := r.Holds(farCluster); ok {
		t.Error("held though nobody asked for it")
	}
	r.Ask(farCluster)
	r.wantHolds(t, "asked", farCluster, "10.244.9.7:8080")
	if asked, _ := r.told(); !slices.Equal(asked, []string{farCluster}) {
		t.Errorf("told of %v", asked)
	}
	o.Delete("far")
	r.publish(o)
	r.wantHolds(t, "deleted", farCluster)
}

func keptUntilReleased(t *testing.T, r *xdsRig) {
	r.publish(webAndOther())
	r.Connect("1.40.0")
	r.wantHolds(t, "first", webCluster, "10.244.2.5:8080")
	r.wantHolds(t, "first", otherCluster, "10.244.2.6:8080")
	for _, pod := range []string{"10.244.9.7", "10.244.9.8"} {
		o := webOnly()
		o.Plain("other", "10.96.0.11", map[string]string{"b-1": pod})
		cat, changed := r.catalogs.Next(r.viewer.See(o.Snapshot()), false)
		r.catalogs.Used(nil, nil) // nor is it held for having been near
		r.Update(cat.Keeping(), changed)
		r.wantHolds(t, "nobody's to preload", otherCluster, pod+":8080")
	}
	cat, changed := r.catalogs.Next(r.viewer.See(webOnly().Snapshot()), false)
	r.Update(cat, changed)
	eventually(t, "what nobody keeps is gone", func() bool { _, held := r.Holds(otherCluster); return !held })
	r.wantHolds(t, "the rest goes on", webCluster, "10.244.2.5:8080")
}

func refusedIsTold(t *testing.T, r *xdsRig) {
	r.Connect("1.40.0")
	r.Refuse(otherCluster, "no")
	r.publish(webOnly())
	r.wantHolds(t, "first", webCluster, "10.244.2.5:8080")
	o := webAndOther()
	r.publish(o)
	eventually(t, "the refusal is listed", func() bool { return len(r.Nacks()) == 1 })
	n := r.Nacks()[0]
	if n.Type != "cluster" || n.Name != otherCluster || n.Service != "default/other" || n.Reason != "no" || n.At.IsZero() {
		t.Errorf("listed: %+v", n)
	}
	eventually(t, "the refusal is told", func() bool { _, refused := r.told(); return len(refused) == 1 })
	r.wantHolds(t, "the rest goes on", webCluster, "10.244.2.5:8080")
	r.Disconnect()
	eventually(t, "the refusal goes with who refused", func() bool { return len(r.Nacks()) == 0 })
	r.Connect("1.40.0")
	eventually(t, "the refusal is listed again", func() bool { return len(r.Nacks()) == 1 })
	o.Delete("other")
	r.publish(o)
	if list := r.Nacks(); len(list) > 0 {
		t.Errorf("refused, and gone: %+v", list)
	}
}

func streamsComeAndGo(t *testing.T, r *xdsRig) {
	r.publish(webOnly())
	if list := r.Streams(); len(list) > 0 {
		t.Errorf("streams before anybody connected: %+v", list)
	}
	r.Connect("1.40.0")
	r.wantHolds(t, "connected", webCluster, "10.244.2.5:8080")
	if list := r.Streams(); len(list) != 1 || list[0].Version != "1.40.0" || list[0].Since.IsZero() {
		t.Errorf("streams: %+v", list)
	}
	r.Disconnect()
	eventually(t, "the stream is gone", func() bool { return len(r.Streams()) == 0 })
}

// One that was awaited in vain is awaited all the same, of the same cluster and of another, until it answers.
func awaitedEachTime(t *testing.T, r *xdsRig) {
	r.publish(webAndOther())
	r.Connect("1.40.0")
	r.wantHolds(t, "first", webCluster, "10.244.2.5:8080")
	r.wantHolds(t, "first", otherCluster, "10.244.2.6:8080")
	if !r.Await([]string{webCluster, otherCluster}, time.Minute) {
		t.Error("awaited in vain, and has answered everything")
	}
	r.Slow(true)
	o := webAndOther()
	o.Closed("web", "10.96.0.10", map[string]string{"a-1": "10.244.1.5"})
	o.Closed("other", "10.96.0.11", map[string]string{"a-1": "10.244.1.6"})
	r.publish(o)
	const within = 20 * time.Millisecond
	for _, name := range []string{webCluster, webCluster, otherCluster} {
		began := time.Now()
		if taken := r.Await([]string{name}, within); taken || time.Since(began) < within {
			t.Errorf("%s: taken %v after %s, and it answers nothing", name, taken, time.Since(began))
		}
	}
	got := make(chan bool)
	go func() { got <- r.Await([]string{webCluster, otherCluster}, time.Minute) }()
	r.Slow(false)
	if !<-got {
		t.Error("awaited in vain, and answers again")
	}
	r.wantHolds(t, "changed", webCluster, "10.244.1.5:8080")
	r.wantHolds(t, "changed", otherCluster, "10.244.1.6:8080")
}
