package xds

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gridmesh/gridmesh/xds/render"
	"github.com/gridmesh/gridmesh/xds/xdstest"
)

// pipe is a stream of channels, for tests of what time does.
type pipe struct {
	grpc.ServerStream
	ctx       context.Context
	requests  chan *discovery.DeltaDiscoveryRequest
	responses chan *discovery.DeltaDiscoveryResponse
}

func (p *pipe) Context() context.Context { return p.ctx }

func (p *pipe) Recv() (*discovery.DeltaDiscoveryRequest, error) {
	select {
	case r := <-p.requests:
		return r, nil
	case <-p.ctx.Done():
		return nil, p.ctx.Err()
	}
}

func (p *pipe) Send(r *discovery.DeltaDiscoveryResponse) error {
	p.responses <- r
	return nil
}

func TestRefusedResourceIsOfferedAgainAndReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.near(9, 1)
		c.publish()
		ctx, cancel := context.WithCancel(t.Context())
		p := &pipe{ctx: ctx, requests: make(chan *discovery.DeltaDiscoveryRequest), responses: make(chan *discovery.DeltaDiscoveryResponse, 10)}
		ended := make(chan error)
		go func() { ended <- c.server.DeltaAggregatedResources(p) }()
		began := time.Now()
		p.requests <- &discovery.DeltaDiscoveryRequest{TypeUrl: render.ClusterType, Node: xdstest.Node(40)}
		for i := range 3 {
			r := <-p.responses
			if got := time.Since(began); got != time.Duration(i)*retryRefused || !slices.Equal(xdstest.Names(r), []string{name(1)}) {
				t.Errorf("%q after %s", xdstest.Names(r), got)
			}
			p.requests <- &discovery.DeltaDiscoveryRequest{TypeUrl: render.ClusterType, ResponseNonce: r.GetNonce(), ErrorDetail: status.New(codes.InvalidArgument, "port taken").Proto()}
		}
		synctest.Wait()
		if list := c.server.Nacks(); len(list) != 1 || !list[0].At.Equal(began) || len(c.refused) != 1 {
			t.Errorf("refused since %s: %+v, reported %d times", began, list, len(c.refused))
		}
		r := <-p.responses
		p.requests <- &discovery.DeltaDiscoveryRequest{TypeUrl: render.ClusterType, ResponseNonce: r.GetNonce()}
		synctest.Wait()
		if list := c.server.Nacks(); len(list) != 0 {
			t.Errorf("refused after it was taken: %+v", list)
		}
		cancel()
		<-ended
	})
}

func TestWhatIsKeptOfRefusalsIsBounded(t *testing.T) {
	c := newCluster(t)
	c.publish()
	reason := strings.Repeat("ä", 1<<16)
	for i := range 2 * maxNacks {
		c.server.refused(render.ClusterType, fmt.Sprint(i), reason)
	}
	list := c.server.Nacks()
	if len(list) != maxNacks || len(list[0].Reason) > maxReason+10 {
		t.Errorf("%d refusals with %d bytes each", len(list), len(list[0].Reason))
	}
}
