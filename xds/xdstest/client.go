// Package xdstest has what tests of a delta ADS server need: a Unix socket to
// serve on, and a client that speaks as Envoy does and holds what it took.
package xdstest

import (
	"context"
	"maps"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// timeout ends a stream whose server does not answer.
const timeout = 30 * time.Second

// Serve serves what register registers on a Unix socket until the test ends.
func Serve(tb testing.TB, register func(*grpc.Server), opts ...grpc.ServerOption) (socket string) {
	tb.Helper()
	dir, err := os.MkdirTemp("", "xds") // t.TempDir may be too long for a socket
	if err != nil {
		tb.Fatal(err)
	}
	socket = filepath.Join(dir, "xds.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		tb.Fatal(err)
	}
	g := grpc.NewServer(opts...)
	register(g)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Serve(l) // ends by Stop
	}()
	tb.Cleanup(func() { g.Stop(); <-done; _ = os.RemoveAll(dir) })
	return socket
}

// Node describes an Envoy of version 1.minor.0.
func Node(minor uint32) *core.Node {
	return &core.Node{Id: "a-1", UserAgentVersionType: &core.Node_UserAgentBuildVersion{
		UserAgentBuildVersion: &core.BuildVersion{Version: &envoytype.SemanticVersion{MajorNumber: 1, MinorNumber: minor}},
	}}
}

// Client is one stream of an Envoy. It has one owner.
type Client struct {
	tb     testing.TB
	stream discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	close  func()
	node   *core.Node                   // sent with the first request
	held   map[string]map[string]string // type -> name -> version
	resume map[string]map[string]string // what Resume brought, until the type's first request
}

// Dial opens a stream of an Envoy that holds nothing.
func Dial(tb testing.TB, socket string) *Client { return Resume(tb, socket, nil) }

// Resume opens a stream of an Envoy that holds what the client before it held.
func Resume(tb testing.TB, socket string, before *Client) *Client {
	tb.Helper()
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	c := &Client{
		tb: tb, node: Node(40), held: map[string]map[string]string{}, resume: map[string]map[string]string{},
		close: func() { cancel(); _ = conn.Close() },
	}
	tb.Cleanup(c.close)
	if before != nil {
		for typeURL, names := range before.held {
			c.held[typeURL], c.resume[typeURL] = maps.Clone(names), maps.Clone(names)
		}
	}
	if c.stream, err = discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx); err != nil {
		tb.Fatal(err)
	}
	return c
}

// Anonymous lets the client keep to itself who it is.
func (c *Client) Anonymous() { c.node = nil }

// Close ends the stream and its connection.
func (c *Client) Close() { c.close() }

// Send sends a request as it is, but for node and initial versions, which
// come with the first one.
func (c *Client) Send(r *discovery.DeltaDiscoveryRequest) {
	c.tb.Helper()
	if r.Node == nil {
		r.Node = c.node
	}
	if r.InitialResourceVersions == nil {
		r.InitialResourceVersions = c.resume[r.GetTypeUrl()]
	}
	c.node, c.resume[r.GetTypeUrl()] = nil, nil
	if err := c.stream.Send(r); err != nil {
		c.tb.Fatalf("send %v: %v", r, err)
	}
}

// Subscribe asks for names of a type; none at first means all of them.
func (c *Client) Subscribe(typeURL string, names ...string) {
	c.tb.Helper()
	c.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: names})
}

// Unsubscribe gives names of a type back.
func (c *Client) Unsubscribe(typeURL string, names ...string) {
	c.tb.Helper()
	for _, name := range names {
		delete(c.held[typeURL], name)
	}
	c.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesUnsubscribe: names})
}

// Recv returns the next response, unanswered.
func (c *Client) Recv() *discovery.DeltaDiscoveryResponse {
	c.tb.Helper()
	r, err := c.stream.Recv()
	if err != nil {
		c.tb.Fatalf("no response: %v", err)
	}
	return r
}

// End receives until the stream ends and returns why it did.
func (c *Client) End() error {
	for {
		if _, err := c.stream.Recv(); err != nil {
			return err
		}
	}
}

// Ack takes a response. names, if any, are asked for in the same request.
func (c *Client) Ack(r *discovery.DeltaDiscoveryResponse, names ...string) {
	c.tb.Helper()
	held := c.held[r.GetTypeUrl()]
	if held == nil {
		held = map[string]string{}
		c.held[r.GetTypeUrl()] = held
	}
	for _, resource := range r.GetResources() {
		held[resource.GetName()] = resource.GetVersion()
	}
	for _, name := range r.GetRemovedResources() {
		delete(held, name)
	}
	c.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce(), ResourceNamesSubscribe: names})
}

// Nack refuses a response.
func (c *Client) Nack(r *discovery.DeltaDiscoveryResponse, reason string) {
	c.tb.Helper()
	c.Send(&discovery.DeltaDiscoveryRequest{
		TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce(),
		ErrorDetail: status.New(codes.InvalidArgument, reason).Proto(),
	})
}

// Take receives the next response and takes it.
func (c *Client) Take() *discovery.DeltaDiscoveryResponse {
	c.tb.Helper()
	r := c.Recv()
	c.Ack(r)
	return r
}

// Held returns the versions that the client holds of a type, by name.
func (c *Client) Held(typeURL string) map[string]string { return maps.Clone(c.held[typeURL]) }

// Names returns what a response carries: names, then "-" and the name for
// what it removes.
func Names(r *discovery.DeltaDiscoveryResponse) []string {
	list := []string{}
	for _, resource := range r.GetResources() {
		list = append(list, resource.GetName())
	}
	for _, name := range r.GetRemovedResources() {
		list = append(list, "-"+name)
	}
	return list
}
