package xds

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
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
		c.server.refused(nil, render.ClusterType, fmt.Sprint(i), reason)
	}
	list := c.server.Nacks()
	if len(list) != maxNacks || len(list[0].Reason) > maxReason+10 {
		t.Errorf("%d refusals with %d bytes each", len(list), len(list[0].Reason))
	}
}

// Of refusals that are too many for the list it is said once that they are, and
// again only when there was room meanwhile: Envoys refuse all of them at each retry.
func TestWhatIsSaidOfRefusalsIsBounded(t *testing.T) {
	c := newCluster(t)
	var lines bytes.Buffer
	c.server.cfg.Log = slog.New(slog.NewTextHandler(&lines, nil))
	c.publish()
	names := make([]string, 2*maxNacks)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	shuffled := rand.New(rand.NewPCG(1, 2)).Perm(len(names))
	said := func() int {
		lines.Reset()
		for _, i := range shuffled {
			c.server.refused(nil, render.ClusterType, names[i], "no")
		}
		return strings.Count(lines.String(), "\n")
	}
	for i, want := range []int{maxNacks + 1, 0, 0} {
		if n := said(); n != want {
			t.Errorf("round %d: %d lines, want %d", i, n, want)
		}
		slices.Sort(shuffled) // listed and others, mixed
	}
	c.server.accepted(nil, render.ClusterType, c.listed(1))
	if n := said(); n != 2 { // one more is listed, and there are too many again
		t.Errorf("with room for one: %d lines, want 2", n)
	}
}

// listed are some of the resources that are refused.
func (c *cluster) listed(n int) (names []string) {
	for _, nack := range c.server.Nacks()[:n] {
		names = append(names, nack.Name)
	}
	return names
}
