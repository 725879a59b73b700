package xds

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds/render"
	"github.com/gridmesh/gridmesh/xds/xdstest"
)

// response checks a response: its type, and what it carries.
func response(t *testing.T, r *discovery.DeltaDiscoveryResponse, typeURL string, names ...string) {
	t.Helper()
	if got := xdstest.Names(r); r.GetTypeUrl() != typeURL || !slices.Equal(got, names) {
		t.Fatalf("got %s %q, want %s %q", short(r.GetTypeUrl()), got, short(typeURL), names)
	}
}

// endpoints returns how many endpoints a response of one assignment carries.
func endpoints(t *testing.T, r *discovery.DeltaDiscoveryResponse) (n int) {
	t.Helper()
	var cla endpoint.ClusterLoadAssignment
	if err := r.GetResources()[0].GetResource().UnmarshalTo(&cla); err != nil {
		t.Fatal(err)
	}
	for _, tier := range cla.GetEndpoints() {
		n += len(tier.GetLbEndpoints())
	}
	return n
}

// nothingElse checks that nothing was to be sent before now: what is asked for
// now is the next thing that comes.
func nothingElse(t *testing.T, c *xdstest.Client) {
	t.Helper()
	c.Subscribe(render.EndpointType, "10.255.255.255:1")
	response(t, c.Take(), render.EndpointType, "10.255.255.255:1")
	c.Unsubscribe(render.EndpointType, "10.255.255.255:1")
}

// hold opens a stream that holds the preloaded clusters, their endpoints and
// the listeners, as an Envoy does after its start.
func hold(t *testing.T, c *cluster) *xdstest.Client {
	t.Helper()
	envoy := xdstest.Dial(t, c.socket)
	envoy.Subscribe(render.ClusterType)
	if names := xdstest.Names(envoy.Take()); len(names) > 0 {
		envoy.Subscribe(render.EndpointType, names...)
		envoy.Take()
	}
	envoy.Subscribe(render.ListenerType)
	envoy.Take()
	return envoy
}

// reconnect opens the stream of an Envoy that lost the one before.
func reconnect(t *testing.T, socket string, before *xdstest.Client, onDemand ...string) *xdstest.Client {
	t.Helper()
	before.Close()
	envoy := xdstest.Resume(t, socket, before)
	envoy.Subscribe(render.ClusterType, append([]string{"*"}, onDemand...)...)
	names := []string{}
	for name := range before.Held(render.EndpointType) {
		names = append(names, name)
	}
	envoy.Subscribe(render.EndpointType, names...)
	envoy.Subscribe(render.ListenerType, "*")
	return envoy
}

func TestOldEnvoyIsRefused(t *testing.T) {
	c := serving(t, []byte{1}, nil)
	envoy := xdstest.Dial(t, c.socket)
	envoy.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: render.ClusterType, Node: xdstest.Node(39)})
	err := envoy.End()
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "1.39.0 is too old") || !strings.Contains(err.Error(), "1.40 or newer") {
		t.Errorf("got %v", err)
	}
}

func TestStreamsWaitForTheFirstUpdate(t *testing.T) {
	c := newCluster(t)
	began, ended := make(chan struct{}, 2), make(chan struct{}, 2)
	socket := xdstest.Serve(t, c.server.Register, grpc.StreamInterceptor(func(srv any, g grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		began <- struct{}{}
		defer func() { ended <- struct{}{} }()
		return next(srv, g)
	}))
	impatient, envoy := xdstest.Dial(t, socket), xdstest.Dial(t, socket)
	impatient.Subscribe(render.ClusterType)
	envoy.Subscribe(render.ClusterType)
	<-began
	<-began
	impatient.Close() // one that goes away while it waits is let go
	<-ended
	if n := len(c.server.Streams()); n != 0 {
		t.Fatalf("%d streams are served without a catalog", n)
	}
	c.near(9, 1)
	c.publish()
	response(t, envoy.Take(), render.ClusterType, name(1))
}

func TestOneStreamServesEveryType(t *testing.T) {
	c := serving(t, []byte{1}, []byte{3})
	envoy := xdstest.Dial(t, c.socket)
	envoy.Subscribe("type.googleapis.com/envoy.config.route.v3.RouteConfiguration", "of no interest here")
	envoy.Subscribe(render.ClusterType) // an empty list is the wildcard
	r := envoy.Recv()
	response(t, r, render.ClusterType, name(1))
	envoy.Ack(r, name(3)) // on demand, merged with the ACK
	response(t, envoy.Take(), render.ClusterType, name(3))
	envoy.Subscribe(render.EndpointType, name(1), name(3))
	response(t, envoy.Take(), render.EndpointType, name(1), name(3))
	envoy.Subscribe(render.ListenerType)
	response(t, envoy.Take(), render.ListenerType, "tcp4-keep", "tcp4-plain", "tcp6-keep", "tcp6-plain")
	if got := <-c.asked; !slices.Equal(got, []string{name(3)}) {
		t.Errorf("asked for on demand: %q", got)
	}
	if got := c.server.Streams(); len(got) != 1 || got[0].Node != "a-1" || got[0].Version != "1.40.0" {
		t.Errorf("streams: %+v", got)
	}
	eventually(t, "the stream is counted", func() bool {
		s := c.server.Streams()[0]
		return s.Clusters == 2 && s.Endpoints == 2
	})
	nothingElse(t, envoy)
}

func TestNameThatIsNotFoundGetsAnEmptyCluster(t *testing.T) {
	c := serving(t, []byte{1}, nil)
	envoy := hold(t, c)
	envoy.Subscribe(render.ClusterType, name(7))
	response(t, envoy.Take(), render.ClusterType, name(7))
	envoy.Subscribe(render.EndpointType, name(7))
	r := envoy.Take()
	response(t, r, render.EndpointType, name(7))
	if n := endpoints(t, r); n != 0 {
		t.Errorf("%d endpoints of a Service that is not there", n)
	}
	c.far(9, 7) // it appears
	c.publish()
	r = envoy.Take()
	response(t, r, render.EndpointType, name(7))
	if n := endpoints(t, r); n != 1 {
		t.Errorf("%d endpoints of the Service that came, want 1", n)
	}
}

func TestClusterAskedForByNameIsEmptiedNotRemoved(t *testing.T) {
	c := serving(t, []byte{1, 2}, nil)
	envoy := hold(t, c)
	envoy.Subscribe(render.ClusterType, name(1)) // asked for by name, too
	response(t, envoy.Take(), render.ClusterType, name(1))
	response(t, envoy.Take(), render.EndpointType, name(1)) // it was sent again: so are they
	c.remove(1, 2)
	c.publish()
	// Without keys the connect timeout is another: the empty cluster is a change.
	response(t, envoy.Take(), render.ClusterType, name(1), "-"+name(2))
	r := envoy.Take()
	response(t, r, render.EndpointType, name(1), name(2))
	if n := endpoints(t, r); n != 0 {
		t.Errorf("%d endpoints of a Service that is gone", n)
	}
	c.near(9, 1)
	c.publish()
	response(t, envoy.Take(), render.ClusterType, name(1))
	response(t, envoy.Take(), render.EndpointType, name(1))
	nothingElse(t, envoy)
}

func TestClusterChangeIsFollowedByItsEndpoints(t *testing.T) {
	c := serving(t, []byte{1, 2}, nil)
	envoy := hold(t, c)
	before := envoy.Held(render.EndpointType)
	envoy.Subscribe(render.ClusterType, name(1))
	envoy.Take()
	envoy.Take()
	c.far(9, 1) // another connect timeout, the same endpoints
	c.publish()
	response(t, envoy.Take(), render.ClusterType, name(1))
	response(t, envoy.Take(), render.EndpointType, name(1))
	if after := envoy.Held(render.EndpointType); after[name(1)] != before[name(1)] {
		t.Errorf("the endpoints changed from %s to %s: the test shows nothing", before[name(1)], after[name(1)])
	}
	nothingElse(t, envoy)
}

func TestReconnectSendsNothingAgain(t *testing.T) {
	c := serving(t, []byte{1, 2}, []byte{3})
	envoy := hold(t, c)
	envoy.Subscribe(render.ClusterType, name(3))
	envoy.Take()
	envoy.Subscribe(render.EndpointType, name(3))
	envoy.Take()
	nothingElse(t, envoy)
	envoy = reconnect(t, c.socket, envoy, name(3))
	nothingElse(t, envoy)
	other := serving(t, []byte{1, 2}, []byte{3}) // an agent that restarted
	envoy = reconnect(t, other.socket, envoy, name(3))
	nothingElse(t, envoy)
	changed := serving(t, []byte{1, 2}, nil)
	changed.far(8, 3)
	changed.publish()
	envoy = reconnect(t, changed.socket, envoy, name(3))
	response(t, envoy.Take(), render.EndpointType, name(3))
	nothingElse(t, envoy)
	if n := other.metric("gridmesh_xds_resources_sent_total") - 1; n != 0 { // but for the one that nothingElse asks for
		t.Errorf("%v resources were sent again after a restart", n)
	}
}

// An update of the agent may change every cluster. Envoy asks for clusters
// before it says which endpoints it holds.
func TestReconnectFollowsChangedClustersByTheirEndpoints(t *testing.T) {
	c := serving(t, []byte{1}, nil)
	envoy := hold(t, c)
	other := serving(t, nil, []byte{1}) // another connect timeout, the same endpoints
	envoy = reconnect(t, other.socket, envoy, name(1))
	response(t, envoy.Take(), render.ClusterType, name(1))
	response(t, envoy.Take(), render.EndpointType, name(1))
	nothingElse(t, envoy)
}

func TestNackSendsOneByOneAndReportsTheBad(t *testing.T) {
	c := serving(t, []byte{1, 2, 3}, nil)
	envoy := xdstest.Dial(t, c.socket)
	envoy.Subscribe(render.ClusterType)
	r := envoy.Recv()
	response(t, r, render.ClusterType, name(1), name(2), name(3))
	envoy.Nack(r, "one of them is bad")
	response(t, envoy.Take(), render.ClusterType, name(1))
	r = envoy.Recv()
	response(t, r, render.ClusterType, name(2))
	envoy.Nack(r, "no such filter")
	response(t, envoy.Take(), render.ClusterType, name(3))
	n := <-c.refused
	if n.Type != "cluster" || n.Name != name(2) || n.Service != serviceKey(2).String() || n.Reason != "no such filter" {
		t.Errorf("refused: %+v", n)
	}
	if list := c.server.Nacks(); len(list) != 1 || list[0] != n {
		t.Errorf("refused at the moment: %+v", list)
	}
	if n := c.metric("gridmesh_xds_nacks_total"); n != 2 {
		t.Errorf("%v NACKs counted, want 2", n)
	}
	c.far(9, 2) // it changes: it is offered again
	envoy.Subscribe(render.ClusterType, name(2))
	c.publish()
	response(t, envoy.Take(), render.ClusterType, name(2))
	eventually(t, "nothing is refused any more", func() bool { return len(c.server.Nacks()) == 0 })
}

// The last good state only adds to what Envoy holds; the live one that comes
// after it is compared with everything.
func TestReconnectToAProvisionalCatalogOnlyAdds(t *testing.T) {
	live := serving(t, []byte{1, 2}, nil)
	envoy := hold(t, live)
	restarted := newCluster(t)
	restarted.socket = xdstest.Serve(t, restarted.server.Register)
	restarted.near(8, 1) // older than what Envoy holds: another endpoint, no second Service
	restarted.near(8, 4)
	restarted.publishProvisional()
	envoy = reconnect(t, restarted.socket, envoy)
	response(t, envoy.Take(), render.ClusterType, name(4))
	envoy.Subscribe(render.EndpointType, name(4))
	response(t, envoy.Take(), render.EndpointType, name(4))
	restarted.near(7, 1, 5) // a change of the first is passed over
	restarted.publishProvisional()
	response(t, envoy.Take(), render.ClusterType, name(5))
	nothingElse(t, envoy)
	restarted.remove(4, 5)
	restarted.near(9, 1, 2)
	restarted.publish()
	response(t, envoy.Take(), render.ClusterType, "-"+name(4), "-"+name(5))
	response(t, envoy.Take(), render.EndpointType, name(4))
	nothingElse(t, envoy)
}

// A reader that stops holds up nobody; when it goes on, it gets what is true
// then, and not what it missed.
func TestSlowReaderNeverBlocksUpdate(t *testing.T) {
	c := serving(t, []byte{1}, nil)
	slow, quick := xdstest.Dial(t, c.socket), hold(t, c)
	names := []string{name(1)}
	for i := range 3000 { // more than flow control lets through
		names = append(names, fmt.Sprintf("10.97.%d.%d:80", i>>8, i&255))
	}
	slow.Subscribe(render.EndpointType, names...)
	slow.Recv()
	for i := range 50 {
		c.near(byte(10+i%2), 1)
		c.publish()
		response(t, quick.Take(), render.EndpointType, name(1))
	}
	c.near(77, 1)
	c.publish()
	want, _ := c.server.current().Resource(render.EndpointType, name(1))
	for got := 0; slow.Held(render.EndpointType)[name(1)] != want.Version; got++ {
		if got > 20 {
			t.Fatal("the slow reader gets what it missed")
		}
		slow.Take()
	}
}

func TestTooManyNamesEndTheirStreamAlone(t *testing.T) {
	c := serving(t, []byte{1}, nil)
	quiet := hold(t, c)
	many := make([]string, maxNames+1)
	for i := range many {
		many[i] = fmt.Sprintf("%x", i)
	}
	for what, names := range map[string][]string{"many": many, "one that is long": {strings.Repeat("x", 1<<20)}} {
		greedy := xdstest.Dial(t, c.socket)
		greedy.Subscribe(render.EndpointType, names...)
		if err := greedy.End(); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%s: got %v", what, err)
		}
	}
	nothingElse(t, quiet)
}

// What is given back counts no more, and no name that is served is too long.
func TestNamesAreCounted(t *testing.T) {
	c := newCluster(t)
	s := newSubscription(render.EndpointType)
	names := []string{name(1), name(2), name(1)}
	s.request(c.server.current(), names, nil, nil)
	s.request(c.server.current(), names, nil, nil)
	if want := len(name(1)) + len(name(2)); s.bytes != want {
		t.Errorf("%d bytes, want %d", s.bytes, want)
	}
	more := &discovery.DeltaDiscoveryRequest{ResourceNamesSubscribe: []string{strings.Repeat("x", maxName)}}
	if err := s.bound(more); err != nil {
		t.Error(err)
	}
	kept := s.bytes
	s.bytes = maxNameBytes - maxName + 1
	if err := s.bound(more); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("names of %d bytes: %v", maxNameBytes+1, err)
	}
	s.bytes = kept
	s.request(c.server.current(), nil, append(names, "other"), nil)
	if s.bytes != 0 {
		t.Errorf("%d bytes are left", s.bytes)
	}
	longest := topology.Frontend{Addr: netip.MustParseAddr("fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), Port: 65535, Protocol: topology.UDP}
	if n := len(render.ClusterName(longest)); 2*n > maxName {
		t.Errorf("a cluster's name has %d bytes", n)
	}
}

func TestStreamEndFreesEverything(t *testing.T) {
	c := serving(t, []byte{1}, nil)
	for range 5 {
		envoy := hold(t, c)
		envoy.Close()
	}
	eventually(t, "no stream is left", func() bool { return len(c.server.Streams()) == 0 })
	eventually(t, "no stream is counted", func() bool { return c.metric("gridmesh_xds_streams") == 0 })
	c.near(10, 1)
	c.publish()
	response(t, func() *discovery.DeltaDiscoveryResponse {
		envoy := xdstest.Dial(t, c.socket)
		envoy.Subscribe(render.ClusterType)
		return envoy.Take()
	}(), render.ClusterType, name(1))
}
