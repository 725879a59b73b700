package node

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

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

// adsClient speaks delta ADS as Envoy does, on one stream.
type adsClient struct {
	t    *testing.T
	path string
	stop func()

	mu        sync.Mutex
	stream    discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	refuses   map[string]string
	clusters  map[string]bool
	endpoints map[string][]string
}

func newADSClient(t *testing.T, path string) *adsClient {
	return &adsClient{t: t, path: path, stop: func() {}, refuses: map[string]string{}, clusters: map[string]bool{}, endpoints: map[string][]string{}}
}

func (c *adsClient) Connect(string) {
	conn, err := grpc.NewClient("unix:"+c.path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(c.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	must(c.t, err)
	c.mu.Lock()
	c.stream = stream
	c.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			r, err := stream.Recv()
			if err != nil {
				return
			}
			c.take(r)
		}
	})
	c.stop = sync.OnceFunc(func() { cancel(); _ = conn.Close(); wg.Wait() })
	c.send(&discovery.DeltaDiscoveryRequest{TypeUrl: render.ClusterType, Node: &core.Node{
		Id: "a-1", UserAgentVersionType: &core.Node_UserAgentBuildVersion{
			UserAgentBuildVersion: &core.BuildVersion{Version: &envoytype.SemanticVersion{MajorNumber: 1, MinorNumber: 40}},
		},
	}})
}

func (c *adsClient) Disconnect() { c.stop() }

func (c *adsClient) Ask(names ...string) {
	c.send(&discovery.DeltaDiscoveryRequest{TypeUrl: render.ClusterType, ResourceNamesSubscribe: names})
}

func (c *adsClient) Refuse(name, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuses[name] = reason
}

func (c *adsClient) Holds(name string) ([]string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	endpoints, answered := c.endpoints[name]
	return slices.Clone(endpoints), c.clusters[name] && answered
}

func (c *adsClient) send(r *discovery.DeltaDiscoveryRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.stream.Send(r) // Recv says why a stream ended
}

// take answers a response, and asks for the endpoints of new clusters.
func (c *adsClient) take(r *discovery.DeltaDiscoveryResponse) {
	answer := &discovery.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce()}
	c.mu.Lock()
	for _, resource := range r.GetResources() {
		if reason, refused := c.refuses[resource.GetName()]; refused && r.GetTypeUrl() == render.ClusterType {
			answer.ErrorDetail = status.New(codes.InvalidArgument, reason).Proto()
		}
	}
	var fresh []string
	if answer.ErrorDetail == nil {
		fresh = c.keep(r)
	}
	c.mu.Unlock()
	c.send(answer)
	if len(fresh) > 0 {
		c.send(&discovery.DeltaDiscoveryRequest{TypeUrl: render.EndpointType, ResourceNamesSubscribe: fresh})
	}
}

// keep holds what a response brings and returns clusters that are new.
func (c *adsClient) keep(r *discovery.DeltaDiscoveryResponse) (fresh []string) {
	switch r.GetTypeUrl() {
	case render.ClusterType:
		for _, resource := range r.GetResources() {
			if name := resource.GetName(); !c.clusters[name] {
				c.clusters[name] = true
				fresh = append(fresh, name)
			}
		}
		maps.DeleteFunc(c.clusters, func(name string, _ bool) bool { return slices.Contains(r.GetRemovedResources(), name) })
	case render.EndpointType:
		for _, resource := range r.GetResources() {
			var cla endpoint.ClusterLoadAssignment
			if err := resource.GetResource().UnmarshalTo(&cla); err != nil {
				c.t.Error(err)
			}
			list := []string{}
			for _, locality := range cla.GetEndpoints() {
				for _, e := range locality.GetLbEndpoints() {
					a := e.GetEndpoint().GetAddress().GetSocketAddress()
					list = append(list, net.JoinHostPort(a.GetAddress(), strconv.Itoa(int(a.GetPortValue()))))
				}
			}
			c.endpoints[resource.GetName()] = list
		}
	}
	return fresh
}
