package xds

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"testing"

	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds/render"
)

// holder is a peer that takes everything, and which endpoints it holds.
type holder struct {
	*peer
	held map[string][]string // cluster -> addresses, the nearest tier first
	sent []string            // clusters of assignments since it connected, in order
}

func newHolder(c *cluster, services ...byte) *holder {
	h := &holder{peer: newPeer(c.t, c), held: map[string][]string{}}
	h.see = h.note
	h.subscribe(render.ClusterType, "*")
	for _, n := range services {
		h.subscribe(render.ClusterType, name(n))
		h.subscribe(render.EndpointType, name(n))
	}
	h.drain()
	return h
}

func (h *holder) note(r *discovery.DeltaDiscoveryResponse) {
	for _, resource := range r.GetResources() {
		if r.GetTypeUrl() != render.EndpointType {
			continue
		}
		var cla endpoint.ClusterLoadAssignment
		if err := resource.GetResource().UnmarshalTo(&cla); err != nil {
			h.t.Fatal(err)
		}
		h.sent = append(h.sent, resource.GetName())
		h.held[resource.GetName()] = nil
		for _, tier := range cla.GetEndpoints() {
			for _, e := range tier.GetLbEndpoints() {
				h.held[resource.GetName()] = append(h.held[resource.GetName()], e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress())
			}
		}
	}
}

// look has the stream look at what the cluster is now.
func (h *holder) look() {
	cat, changed := h.c.next(false)
	h.c.server.Update(cat, changed)
	h.stream.mark(changed, false)
	h.stream.takeDirty()
	h.flush()
	h.drain()
}

func (h *holder) endpoints(services ...byte) (n int) {
	for _, s := range services {
		n += len(h.held[name(s)])
	}
	return n
}

// wide sets a Service of so many endpoints, the first so many of them of the unit.
func (c *cluster) wide(n byte, keys *string, near, all int) {
	c.service(n, keys, "far", 1)
	slice := &topology.Slice{Key: serviceKey(n), Service: serviceKey(n).Name, Ports: []topology.SlicePort{{Protocol: topology.TCP, Port: 8080}}}
	for i := range all {
		e := topology.Endpoint{Addr: netip.AddrFrom4([4]byte{10, n, byte(i >> 8), byte(i)}), Node: "far", Ready: true, Serving: true}
		if i < near {
			e.Node = "a-1"
		}
		slice.Endpoints = append(slice.Endpoints, e)
	}
	c.builder.SetSlice(slice)
}

// Envoy never gives back a cluster that it asked for, and one that had an endpoint
// then may have a thousand later. What all of them have together is bounded: who has
// many has a part of them, the nearest first, and who has few has all.
func TestEndpointsOnDemandAreBounded(t *testing.T) {
	const clusters, most = 8, 8 * endpointsOnDemand
	c := newCluster(t)
	c.server.cfg.MaxOnDemand = clusters
	all := []byte{1, 2, 3, 4, 5, 6, 7, 8}
	c.far(9, all...)
	c.publish()
	h := newHolder(c, all...)
	if n := h.endpoints(all...); n != clusters {
		t.Fatalf("%d endpoints are held of %d Services with one each", n, clusters)
	}

	c.wide(1, nil, 0, 5000)
	h.look()
	if n, others := h.endpoints(1), h.endpoints(all[1:]...); n+others > most || n < most/4 || others != clusters-1 {
		t.Errorf("%d endpoints of the Service that grew and %d of the %d others are held; want %d together", n, others, clusters-1, most)
	}

	keys := `["unit","*"]`
	for _, n := range all {
		c.wide(n, nil, 0, 5000+int(n))
	}
	c.wide(8, &keys, 1, 5010) // too many endpoints to be preloaded
	h.look()
	for _, n := range all {
		if got := h.endpoints(n); got < 2 || got > most/clusters {
			t.Errorf("%d endpoints of Service %d are held, want a part of %d", got, n, most)
		}
	}
	if first := h.held[name(8)][0]; first != "10.8.0.0" {
		t.Errorf("the unit's own is none of %v", h.held[name(8)])
	}

	// The same Envoy, another stream: it is sent nothing again.
	h.sent = nil
	h.connect()
	h.drain()
	if len(h.sent) > 0 {
		t.Errorf("%v are sent again", h.sent)
	}

	c.far(9, all...)
	h.look()
	if n := h.endpoints(all...); n != clusters {
		t.Errorf("%d endpoints are held of %d Services that have one each again", n, clusters)
	}
}

// Who asks for what does not fit has it before the parts of others are made smaller: a
// connection waits for it.
func TestWhatIsAskedForComesFirst(t *testing.T) {
	c := newCluster(t)
	c.server.cfg.MaxOnDemand = 8
	for n := range byte(5) {
		c.wide(n+1, nil, 0, 19)
	}
	c.publish()
	h := newHolder(c, 1, 2, 3, 4)
	h.sent = nil
	h.subscribe(render.ClusterType, name(5))
	h.subscribe(render.EndpointType, name(5))
	h.drain()
	if len(h.sent) < 5 || h.sent[0] != name(5) {
		t.Errorf("%v are sent in this order, want %s first", h.sent, name(5))
	}
	if n := h.endpoints(1, 2, 3, 4, 5); n > 8*endpointsOnDemand {
		t.Errorf("%d endpoints are held in the end", n)
	}
}

// What is preloaded is bounded by the preload, and takes nothing from this.
func TestPreloadedEndpointsAreNotOnDemand(t *testing.T) {
	c := newCluster(t)
	c.server.cfg.MaxOnDemand = 4
	keys := `["unit","*"]`
	c.wide(1, &keys, 1, 1000)
	c.wide(2, nil, 0, 4*endpointsOnDemand)
	c.publish()
	h := newHolder(c, 2)
	h.subscribe(render.EndpointType, name(1))
	h.drain()
	check := func(what string, one, two int) {
		t.Helper()
		if a, b := h.endpoints(1), h.endpoints(2); a != one || b != two {
			t.Errorf("%s: %d and %d endpoints are held, want %d and %d", what, a, b, one, two)
		}
	}
	check("one is preloaded", 1000, 4*endpointsOnDemand)

	// It grows out of the preload, and Envoy, which had asked for it, holds it still.
	h.subscribe(render.ClusterType, name(1))
	c.wide(1, &keys, 1, 5001)
	h.look()
	if n := h.endpoints(1, 2); n > 4*endpointsOnDemand || h.endpoints(1) == 0 || h.endpoints(2) == 0 {
		t.Errorf("%d and %d endpoints are held, of at most %d", h.endpoints(1), h.endpoints(2), 4*endpointsOnDemand)
	}
	c.wide(1, &keys, 1, 1000)
	h.look()
	if n := h.endpoints(1); n != 1000 {
		t.Errorf("%d endpoints are held of what is preloaded again", n)
	}
}

// The law, over random histories: no more than the bound is held, nobody goes dark
// for it, and what has no more than its part is held whole.
func TestEndpointsOnDemandStayBounded(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 1))
		c := newCluster(t)
		c.server.cfg.MaxOnDemand = 10
		c.publish()
		h := newHolder(c)
		sizes := map[byte]int{}
		for step := range 40 {
			n := byte(1 + random.IntN(12))
			switch random.IntN(5) {
			case 0:
				h.subscribe(render.ClusterType, name(n))
				if !h.stream.subs[render.ClusterType].over[name(n)] {
					h.subscribe(render.EndpointType, name(n))
				}
			case 1:
				if random.IntN(4) == 0 {
					h.connect()
				}
				h.rest(random.IntN(2 * restTicks))
			default:
				sizes[n] = random.IntN(1 << random.IntN(9))
				c.wide(n, nil, 0, sizes[n])
			}
			h.look()
			all, part := 0, h.stream.describe().Part
			for cluster, addrs := range h.held {
				if !h.types[render.EndpointType].names[cluster] {
					continue
				}
				all += len(addrs)
				n := netip.MustParseAddrPort(cluster).Addr().As4()[3]
				if want := sizes[n]; part > 0 && len(addrs) != min(want, part) || part == 0 && len(addrs) != want {
					t.Fatalf("seed %d step %d: %d endpoints of %s are held, it has %d, and a part is %d", seed, step, len(addrs), cluster, want, part)
				}
			}
			if all > 10*endpointsOnDemand {
				t.Fatalf("seed %d step %d: %d endpoints are held", seed, step, all)
			}
		}
	}
}

// rest lets so many ticks of the stream's clock pass.
func (h *holder) rest(ticks int) {
	for range ticks {
		h.stream.tick()
		h.flush()
		h.drain()
	}
}

// What was cut is whole again once there has been room for it for a while, and one
// Service that grows and shrinks has those of others sent again no more often.
func TestPartsGrowAgain(t *testing.T) {
	c := newCluster(t)
	c.server.cfg.MaxOnDemand = 4
	all := []byte{1, 2, 3, 4}
	for _, n := range all[1:] {
		c.wide(n, nil, 0, 9)
	}
	c.far(9, 1)
	c.publish()
	h := newHolder(c, all...)
	check := func(what string, part, cut, endpoints int) {
		t.Helper()
		got := h.stream.describe()
		if got.Part != part || got.Cut != cut || h.endpoints(all...) != endpoints || c.metric("gridmesh_xds_clusters_cut") != float64(cut) {
			t.Fatalf("%s: a part is %d, %d clusters are cut (the metric says %v), %d endpoints are held; want %d, %d, %d", what,
				got.Part, got.Cut, c.metric("gridmesh_xds_clusters_cut"), h.endpoints(all...), part, cut, endpoints)
		}
	}
	check("all have room", 0, 0, 28)
	c.wide(1, nil, 0, 1000)
	h.look()
	check("one grew", 8, 4, 32)

	for range 10 { // the one that shrinks and grows
		h.sent = nil
		c.far(9, 1)
		h.look()
		h.rest(restTicks - 1)
		check("room has just come back", 8, 3, 25)
		c.wide(1, nil, 0, 1000)
		h.look()
		check("and was taken again", 8, 4, 32)
		if len(h.sent) != 2 {
			t.Fatalf("%d assignments are sent, want the 2 of the Service that changed", len(h.sent))
		}
	}

	h.sent = nil
	c.wide(1, nil, 0, 4) // 31 together, and three quarters are 30
	h.look()
	h.rest(2 * restTicks)
	check("there is room, and little", 8, 3, 28)
	c.far(9, 2)
	h.look()
	h.rest(restTicks - 1)
	check("there is room, for less than a minute", 8, 2, 21)
	h.sent = nil
	h.rest(1)
	check("there is room again", 0, 0, 23)
	if len(h.sent) != 2 {
		t.Errorf("%d assignments are sent, want the 2 that were cut", len(h.sent))
	}
	h.rest(2 * restTicks)
	if len(h.sent) != 2 {
		t.Errorf("%d assignments are sent where nothing changed", len(h.sent)-2)
	}
}

// Who asks for more than all have is told how many each cluster has, once.
func TestAPartIsSaid(t *testing.T) {
	c := newCluster(t)
	c.server.cfg.MaxOnDemand = 2
	c.wide(1, nil, 0, 100)
	c.publish()
	h := newHolder(c)
	if part := h.stream.describe().Part; part != 0 {
		t.Errorf("a part is %d before there is one", part)
	}
	h.subscribe(render.ClusterType, name(1))
	h.subscribe(render.EndpointType, name(1))
	if part := h.stream.describe().Part; part != 16 || h.endpoints(1) != 16 {
		t.Errorf("a part is %d, and %d are held; want 16", part, h.endpoints(1))
	}
}

// The pages say the number that counts here.
func TestTheEndpointsOnThePages(t *testing.T) {
	want := fmt.Sprintf("%d,000 endpoints", endpointsOnDemand*defaultMaxOnDemand/1000)
	for _, page := range []string{"README.md", "../docs/limits.md"} {
		if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s does not say %q: %v", page, want, err)
		}
	}
}
