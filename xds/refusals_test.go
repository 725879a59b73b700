package xds

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gridmesh/gridmesh/xds/render"
	"github.com/gridmesh/gridmesh/xds/xdstest"
)

// asks has an Envoy ask for a cluster by name, which it takes or refuses. end ends its stream.
func (c *cluster) asks(t *testing.T, name string, takes bool) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := &pipe{ctx: ctx, requests: make(chan *discovery.DeltaDiscoveryRequest), responses: make(chan *discovery.DeltaDiscoveryResponse, 10)}
	ended := make(chan error)
	go func() { ended <- c.server.DeltaAggregatedResources(p) }()
	p.requests <- &discovery.DeltaDiscoveryRequest{TypeUrl: render.ClusterType, Node: xdstest.Node(40), ResourceNamesSubscribe: []string{name}}
	answer := &discovery.DeltaDiscoveryRequest{TypeUrl: render.ClusterType, ResponseNonce: (<-p.responses).GetNonce()}
	if !takes {
		answer.ErrorDetail = status.New(codes.InvalidArgument, "no").Proto()
	}
	p.requests <- answer
	synctest.Wait()
	return func() {
		cancel()
		<-ended
	}
}

// What was refused by an Envoy that is gone is no fault any more: the next one may never ask for
// it. What another refuses as well is, and no third one ends that.
func TestRefusalsGoWithTheirEnvoy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.far(9, 1)
		c.publish()
		refused := func(when string, want ...string) {
			t.Helper()
			if got := c.listed(len(c.server.Nacks())); !slices.Equal(got, want) {
				t.Errorf("%s: refused are %q, want %q", when, got, want)
			}
		}
		one := c.asks(t, name(1), false)
		other := c.asks(t, name(1), false)
		refused("by two", name(1))
		one()
		refused("one is gone", name(1))
		good := c.asks(t, name(1), true)
		refused("a third has taken it", name(1))
		other()
		refused("both are gone")
		good()
	})
}

// The list that the refusals of an Envoy had filled has room for others when it is gone.
func TestRefusalsOfAnEnvoyThatIsGoneHideNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.publish()
		end := c.asks(t, name(1), true)
		for st := range c.server.streams {
			for i := range 2 * maxNacks {
				c.server.refused(st, render.ClusterType, fmt.Sprint(i), "no")
			}
		}
		end()
		defer c.asks(t, name(2), false)()
		if got := c.listed(len(c.server.Nacks())); !slices.Equal(got, []string{name(2)}) {
			t.Errorf("refused are %d, want the one of who is there", len(got))
		}
	})
}
