package bench

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/gridmesh/gridmesh/xds"
	"github.com/gridmesh/gridmesh/xds/render"
)

// follower is a client that holds the endpoints of every cluster.
type follower struct {
	stream discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	held   map[string]string // name -> version
}

// follow subscribes to all names, as a client that reconnects with what it held.
func follow(tb testing.TB, socket string, names []string, held map[string]string) *follower {
	tb.Helper()
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(256<<20)))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithTimeout(tb.Context(), 5*time.Minute) // what never comes ends a benchmark
	tb.Cleanup(cancel)
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	f := &follower{stream: stream, held: map[string]string{}}
	f.send(tb, &discovery.DeltaDiscoveryRequest{
		Node: &core.Node{Id: "n0000", UserAgentVersionType: &core.Node_UserAgentBuildVersion{UserAgentBuildVersion: &core.BuildVersion{
			Version: &envoytype.SemanticVersion{MajorNumber: 1, MinorNumber: 40},
		}}},
		TypeUrl: render.EndpointType, ResourceNamesSubscribe: names, InitialResourceVersions: held,
	})
	return f
}

func (f *follower) send(tb testing.TB, r *discovery.DeltaDiscoveryRequest) {
	if err := f.stream.Send(r); err != nil {
		tb.Fatal(err)
	}
}

// receive takes one response, answers it, and returns the bytes of its resources.
func (f *follower) receive(tb testing.TB) (resources, bytes int) {
	resp, err := f.stream.Recv()
	if err != nil {
		tb.Fatal(err)
	}
	for _, r := range resp.GetResources() {
		f.held[r.GetName()] = r.GetVersion()
		bytes += len(r.GetResource().GetValue())
	}
	f.send(tb, &discovery.DeltaDiscoveryRequest{TypeUrl: render.EndpointType, ResponseNonce: resp.GetNonce()})
	return len(resp.GetResources()), bytes
}

// engine is an xDS server under test: change makes the i-th slice another and
// publishes it, from the decision on.
type engine struct {
	socket string
	change func(i int)
	names  []string
}

func serve(tb testing.TB, register func(*grpc.Server)) string {
	tb.Helper()
	socket := filepath.Join(tb.TempDir(), "xds.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		tb.Fatal(err)
	}
	g := grpc.NewServer(grpc.MaxRecvMsgSize(16 << 20))
	register(g)
	go func() { _ = g.Serve(l) }()
	tb.Cleanup(g.Stop)
	return socket
}

// ours is gridmesh's engine behind its decision, with room for all: the opponent cuts
// nothing, and of what is cut a change may not be seen.
func ours(tb testing.TB) *engine {
	w, n := world(), newNode()
	s := xds.New(xds.Config{Log: slog.New(slog.DiscardHandler), Metrics: xds.NewMetrics(prometheus.NewRegistry()), MaxOnDemand: 2 * services})
	cat, changed := n.step(w.Build())
	s.Update(cat, changed)
	return &engine{
		socket: serve(tb, s.Register), names: cat.Names(),
		change: func(i int) {
			w.SetSlice(slice(i%services, i+i/services))
			s.Update(n.step(w.Build()))
		},
	}
}

// linear is go-control-plane's LinearCache behind the same decision and the
// same renderer.
func linear(tb testing.TB) *engine {
	w, n := world(), newNode()
	c := cache.NewLinearCache(render.EndpointType)
	cat, _ := n.step(w.Build())
	all := map[string]types.Resource{}
	for _, name := range cat.Names() {
		r, _ := cat.Resource(render.EndpointType, name)
		all[name] = r.Message()
	}
	c.SetResources(all)
	s := server.NewServer(tb.Context(), c, nil)
	return &engine{
		socket: serve(tb, func(g *grpc.Server) { discovery.RegisterAggregatedDiscoveryServiceServer(g, s) }), names: cat.Names(),
		change: func(i int) {
			w.SetSlice(slice(i%services, i+i/services))
			cat, changed := n.step(w.Build())
			for _, name := range changed[render.EndpointType] {
				r, _ := cat.Resource(render.EndpointType, name)
				if err := c.UpdateResource(name, r.Message()); err != nil {
					tb.Error(err)
				}
			}
		},
	}
}

var engines = []struct {
	name string
	make func(testing.TB) *engine
}{{"gridmesh", ours}, {"LinearCache", linear}}

// One endpoint changes while a client holds the endpoints of all clusters:
// from the change to its arrival there.
func BenchmarkChangeToSubscriber(b *testing.B) {
	for _, e := range engines {
		b.Run(e.name, func(b *testing.B) {
			before := heap()
			engine := e.make(b)
			f := follow(b, engine.socket, engine.names, nil)
			for len(f.held) < len(engine.names) {
				f.receive(b)
			}
			held := float64(heap() - before)
			i, sent := 0, 0
			b.ReportAllocs()
			for b.Loop() {
				i++
				engine.change(2*i + 1) // odd ones have no keys: each change of theirs reaches this node
				for n := 0; n == 0; {
					got, bytes := f.receive(b)
					n, sent = n+got, sent+bytes
				}
			}
			b.ReportMetric(float64(sent)/float64(i), "bytes/change")
			b.ReportMetric(held/(1<<20), "MiB")
		})
	}
}

// The server restarts with nothing changed and the client comes back with
// what it holds: what is it sent?
func BenchmarkReconnect(b *testing.B) {
	for _, e := range engines {
		b.Run(e.name, func(b *testing.B) {
			first := e.make(b)
			f := follow(b, first.socket, first.names, nil)
			for len(f.held) < len(first.names) {
				f.receive(b)
			}
			again := e.make(b)
			sent := 0
			for b.Loop() {
				g := follow(b, again.socket, again.names, f.held)
				// A change at the end tells that everything before it has come.
				again.change(1)
				deadline := time.Now().Add(time.Minute)
				sent = 0
				for name := fmt.Sprintf("10.96.0.%d:80", 1); g.held[name] == "" || g.held[name] == f.held[name]; {
					n, _ := g.receive(b)
					sent += n
					if time.Now().After(deadline) {
						b.Fatal("the change did not come")
					}
				}
			}
			b.ReportMetric(float64(sent-1), "resources-sent-again")
		})
	}
}
