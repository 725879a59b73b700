package node

import (
	"context"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/gridmesh/gridmesh/xds/render"
)

// adsClient speaks delta ADS as Envoy does, on one stream.
type adsClient struct {
	t    *testing.T
	path string
	stop func()

	answering sync.Mutex // held while it is slow

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

func (c *adsClient) Slow(slow bool) {
	if slow {
		c.answering.Lock()
	} else {
		c.answering.Unlock()
	}
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
	c.answering.Lock()
	defer c.answering.Unlock()
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
