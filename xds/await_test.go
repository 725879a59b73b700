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

// connect lets an Envoy connect, and returns its end of the stream.
func connect(t *testing.T, c *cluster) (p *pipe, leave func()) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	p = &pipe{ctx: ctx, requests: make(chan *discovery.DeltaDiscoveryRequest), responses: make(chan *discovery.DeltaDiscoveryResponse, 10)}
	go func() { _ = c.server.DeltaAggregatedResources(p) }()
	return p, leave
}

// attach lets an Envoy connect that holds cluster 1.
func attach(t *testing.T, c *cluster) (p *pipe, leave func()) {
	t.Helper()
	p, leave = connect(t, c)
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
				early := awaiting(c, name(1))
				wantAwaiting(t, "nobody is connected", early)
				p, leave := attach(t, c)
				defer leave()
				wantAwaited(t, "one has come", early, true)
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

// One that comes back holds what it was told before: it is awaited until it has said what that is, and answered what is
// otherwise by now.
func TestAwaitKnowsWhoComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.near(9, 1)
		c.publish()
		p, leave := connect(t, c)
		defer leave()
		held := map[string]string{name(1): "of before"}
		got := awaiting(c, name(1))
		p.requests <- &discovery.DeltaDiscoveryRequest{TypeUrl: render.ClusterType, Node: xdstest.Node(40), InitialResourceVersions: held}
		synctest.Wait()
		p.answer(t, "")
		wantAwaiting(t, "it has not said which endpoints it holds", got)
		p.requests <- &discovery.DeltaDiscoveryRequest{TypeUrl: render.EndpointType, ResourceNamesSubscribe: []string{name(1)}, InitialResourceVersions: held}
		synctest.Wait()
		wantAwaiting(t, "it has others", got)
		p.answer(t, "")
		wantAwaited(t, "answered", got, true)
	})
}

// One that starts holds nothing, and so it is not waited for until it does.
func TestAwaitOfOneThatStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.near(9, 1)
		c.publish()
		p, leave := connect(t, c)
		defer leave()
		got := awaiting(c, name(1))
		wantAwaiting(t, "it has said nothing", got)
		p.requests <- &discovery.DeltaDiscoveryRequest{TypeUrl: render.ClusterType, Node: xdstest.Node(40)}
		synctest.Wait()
		wantAwaited(t, "it has said that it starts", got, true)
	})
}

// What it does not hold yet its connections wait for, and so nobody else does; UDP's do not wait.
func TestAwaitOfWhatIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.near(9, 1)
		c.publish()
		_, leave := attach(t, c)
		defer leave()
		c.near(9, 2)
		c.publish()
		wantAwaited(t, "TCP", awaiting(c, name(2)), true)
		sub := newSubscription(render.ListenerType)
		sub.record("1", &batch{resources: []render.Resource{{Name: name(2)}}})
		if sub.owes(name(2), false) || !sub.owes(name(2), true) {
			t.Error("what was not held before is owed where that matters, or is not where it does not")
		}
	})
}

// One that does not answer is awaited for so long, each time anew; one that goes is not awaited.
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
		again, other := awaiting(c, name(1)), awaiting(c, name(1), name(2))
		wantAwaiting(t, "behind still", again)
		wantAwaiting(t, "behind still, for another", other)
		p.answer(t, "")
		wantAwaited(t, "no more", again, true)
		wantAwaited(t, "no more, for another", other, true)
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
		wantAwaited(t, "it went", got, false)
	})
}

// Who is awaited in vain for a moment, again and again, for it changes before an Envoy that is slow has answered, keeps nobody
// else from being awaited; nor does one that an Envoy was far behind with, and whose changes go on.
func TestAwaitOfOneThatChangesAllTheTime(t *testing.T) {
	for what, stood := range map[string]time.Duration{"slow": 0, "slow, and stood still": 3 * time.Second} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				c.near(9, 1, 2)
				c.publish()
				p, leave := attach(t, c)
				defer leave()
				p.requests <- &discovery.DeltaDiscoveryRequest{TypeUrl: render.EndpointType, ResourceNamesSubscribe: []string{name(2)}}
				p.answer(t, "")
				const late = 50 * time.Millisecond
				stands := time.Now().Add(stood)
				go p.answerLate(func() time.Duration { return max(late, time.Until(stands)) })
				change := func(endpoint, service byte, within time.Duration) (bool, time.Duration) {
					c.near(endpoint, service)
					c.publish()
					began := time.Now()
					return c.server.Await([]string{name(service)}, within), time.Since(began)
				}
				if stood > 0 {
					change(10, 1, time.Second)
					time.Sleep(time.Until(stands))
				}
				for i := range byte(40) {
					if took, _ := change(20+i, 1, late/20); took {
						t.Fatal("nobody is slow")
					}
					time.Sleep(late / 2)
				}
				if taken, took := change(11, 2, time.Second); !taken || took > 2*late {
					t.Errorf("another: taken %v after %s", taken, took)
				}
			})
		})
	}
}

// answerLate takes each response so long after it came.
func (p *pipe) answerLate(late func() time.Duration) {
	for {
		select {
		case r := <-p.responses:
			time.AfterFunc(late(), func() {
				select {
				case p.requests <- &discovery.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce()}:
				case <-p.ctx.Done():
				}
			})
		case <-p.ctx.Done():
			return
		}
	}
}
