package datapath

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// stalledStream opens an ADS stream that asks for much and never reads.
func stalledStream(t *testing.T, socket string, names []string) {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	must(t, err)
	node := &core.Node{Id: "stalled", UserAgentVersionType: &core.Node_UserAgentBuildVersion{UserAgentBuildVersion: &core.BuildVersion{Version: &envoytype.SemanticVersion{MajorNumber: 1, MinorNumber: 40}}}}
	go func() { // until flow control or the end of the test stops it
		for range 20 {
			if stream.Send(&discovery.DeltaDiscoveryRequest{Node: node, TypeUrl: resource.ClusterType, ResourceNamesSubscribe: names}) != nil {
				return
			}
			node = nil
		}
	}()
}

// Peers that may open the sockets and mean no good: garbage, clients that
// never read, names without end. Envoy follows changes all the while, and the
// agent's memory stays in bounds.
func TestHostilePeersOnTheSockets(t *testing.T) {
	f := deploy(t, "hostile", `["unit"]`)
	f.served(t)
	e := named(t, "a-1")
	before, err := e.Agent.ResidentMiB()
	must(t, err)

	names := make([]string, 20_000)
	for i := range names {
		names[i] = fmt.Sprintf("10.96.%d.%d:%d", i>>8&255, i&255, 1000+i>>16)
	}
	for range 8 {
		stalledStream(t, e.Dir+"/xds.sock", names)
	}
	// More names than are served end the stream, and that one alone.
	many := make([]string, 15)
	for i := range many {
		many[i] = strings.Repeat("x", 1<<20)
	}
	stalledStream(t, e.Dir+"/xds.sock", many)
	garbage := make([]byte, 1<<16)
	_, _ = rand.Read(garbage)
	for _, socket := range []string{"xds.sock", "feed.sock", "agent.sock"} {
		for i := range 30 {
			conn, err := net.DialTimeout("unix", e.Dir+"/"+socket, answers)
			must(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			if i%2 == 0 { // the others say nothing and never read
				_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
				_, _ = conn.Write(garbage)
			}
		}
	}

	all := f.ends
	for round := range 6 {
		f.ends = []backend{{f.pods["a-1"].IP, "a-1"}, {f.pods["a-1"].IP6, "a-1"}}
		want := "hostile-a-1"
		if round%2 == 1 {
			f.ends, want = []backend{{f.pods["a-2"].IP, "a-2"}, {f.pods["a-2"].IP6, "a-2"}}, "hostile-a-2"
		}
		w.state.service(f.service)
		must(t, w.state.write())
		took := wait.Eventually(t, func() error {
			for range 4 {
				if a, err := edge.Ask(e.NS, "tcp", f.at(round%2), time.Second); err != nil || a.Name != want {
					return fmt.Errorf("answered by %s, want %s: %w", a.Name, want, err)
				}
			}
			return nil
		})
		t.Logf("followed after %s", took)
	}
	f.ends = all
	w.state.service(f.service)
	must(t, w.state.write())
	after, err := e.Agent.ResidentMiB()
	must(t, err)
	t.Logf("agent: %d MiB before, %d MiB with the peers there", before, after)
	if after > before+400 { // the race detector multiplies what the peers cost
		t.Errorf("the peers cost %d MiB", after-before)
	}
}
