package xds

import (
	"context"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/gridmesh/gridmesh/xds/render"
)

// open starts a server and a stream to it.
func open(t *testing.T, s *Server) discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient {
	t.Helper()
	path := filepath.Join(t.TempDir(), "xds.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	s.Register(g)
	go func() { _ = g.Serve(l) }()
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(func() { cancel(); _ = conn.Close(); g.Stop() })
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func server() *Server {
	return New(Config{Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Metrics: NewMetrics(prometheus.NewRegistry())})
}

func hello(minor uint32) *discovery.DeltaDiscoveryRequest {
	return &discovery.DeltaDiscoveryRequest{TypeUrl: render.ClusterType, Node: &core.Node{Id: "a-1", UserAgentVersionType: &core.Node_UserAgentBuildVersion{
		UserAgentBuildVersion: &core.BuildVersion{Version: &envoytype.SemanticVersion{MajorNumber: 1, MinorNumber: minor}},
	}}}
}

func TestOldEnvoyIsRefused(t *testing.T) {
	s := server()
	s.Update(catalogOf([]byte{1}, nil, 9), nil)
	stream := open(t, s)
	if err := stream.Send(hello(39)); err != nil {
		t.Fatal(err)
	}
	_, err := stream.Recv()
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "1.39.0 is too old") || !strings.Contains(err.Error(), "1.40 or newer") {
		t.Errorf("got %v", err)
	}
}

func TestStreamsWaitForTheFirstCatalog(t *testing.T) {
	s := server()
	stream := open(t, s)
	if err := stream.Send(hello(40)); err != nil {
		t.Fatal(err)
	}
	got := make(chan *discovery.DeltaDiscoveryResponse, 1)
	go func() {
		if r, err := stream.Recv(); err == nil {
			got <- r
		}
	}()
	select {
	case r := <-got:
		t.Fatalf("answered before there was a catalog: %v", r)
	case <-time.After(100 * time.Millisecond):
	}
	s.Update(catalogOf([]byte{1}, nil, 9), nil)
	select {
	case r := <-got:
		if len(r.GetResources()) != 1 || r.GetResources()[0].GetName() != name(1) {
			t.Errorf("got %v", r)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("not answered after the first catalog")
	}
}
