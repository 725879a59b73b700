package xds

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gridmesh/gridmesh/xds/render"
	"github.com/gridmesh/gridmesh/xds/xdstest"
)

// attach lets an Envoy connect that holds cluster 1, and returns its end of the stream.
func attach(t *testing.T, c *cluster) (p *pipe, leave func()) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	p = &pipe{ctx: ctx, requests: make(chan *discovery.DeltaDiscoveryRequest), responses: make(chan *discovery.DeltaDiscoveryResponse, 10)}
	go func() { _ = c.server.DeltaAggregatedResources(p) }()
	p.requests <- &discovery.DeltaDiscoveryRequest{TypeUrl: render.ClusterType, Node: xdstest.Node(40)}
	p.answer(t, "")
	p.requests <- &discovery.DeltaDiscoveryRequest{TypeUrl: render.EndpointType, ResourceNamesSubscribe: []string{name(1)}}
	p.answer(t, "")
	return p, leave
}

// answer takes the next response, or refuses it for a reason.
func (p *pipe) answer(t *testing.T, reason string) {
	t.Helper()
	r := <-p.responses
	answer := &discovery.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce()}
	if reason != "" {
		answer.ErrorDetail = status.New(codes.InvalidArgument, reason).Proto()
	}
	p.requests <- answer
	synctest.Wait()
}

// awaiting calls Await beside the test, with a minute.
func awaiting(c *cluster, names ...string) <-chan bool {
	got := make(chan bool, 1)
	go func() { got <- c.server.Await(names, time.Minute) }()
	synctest.Wait()
	return got
}

func wantAwaiting(t *testing.T, when string, got <-chan bool) {
	t.Helper()
	select {
	case is := <-got:
		t.Errorf("%s: it ended with %v", when, is)
	default:
	}
}

func wantAwaited(t *testing.T, when string, got <-chan bool, want bool) {
	t.Helper()
	select {
	case is := <-got:
		if is != want {
			t.Errorf("%s: it ended with %v", when, is)
		}
	default:
		t.Errorf("%s: it goes on", when)
	}
}

// Who awaits an Envoy waits for its answer about those clusters, whatever it is, and for no other.
func TestAwaitWaitsForTheAnswer(t *testing.T) {
	for what, reason := range map[string]string{"taken": "", "refused": "no"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				c.near(9, 1, 2)
				c.publish()
				wantAwaited(t, "nobody is connected", awaiting(c, name(1)), true)
				p, leave := attach(t, c)
				defer leave()
				wantAwaited(t, "nothing changed", awaiting(c, name(1), name(2)), true)
				c.near(10, 1)
				c.publish()
				got := awaiting(c, name(1))
				wantAwaiting(t, "unanswered", got)
				p.answer(t, reason)
				wantAwaited(t, "answered", got, true)

				c.near(11, 1)
				c.publish()
				wantAwaited(t, "another is unanswered", awaiting(c, name(2)), true)
			})
		})
	}
}

// One that does not answer is awaited for so long, and not again until it has answered; one that goes is not awaited.
func TestAwaitGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.near(9, 1)
		c.publish()
		p, leave := attach(t, c)
		defer leave()
		c.near(10, 1)
		c.publish()
		began := time.Now()
		if c.server.Await([]string{name(1)}, time.Second) || time.Since(began) != time.Second {
			t.Errorf("awaited in vain for %s", time.Since(began))
		}
		wantAwaited(t, "behind still", awaiting(c, name(1)), false)
		p.answer(t, "")
		wantAwaited(t, "no more", awaiting(c, name(1)), true)
	})
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.near(9, 1)
		c.publish()
		_, leave := attach(t, c)
		c.near(10, 1)
		c.publish()
		got := awaiting(c, name(1))
		leave()
		synctest.Wait()
		wantAwaited(t, "it went", got, true)
	})
}
