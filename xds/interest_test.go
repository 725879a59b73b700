package xds

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gridmesh/gridmesh/xds/render"
	"github.com/gridmesh/gridmesh/xds/xdstest"
)

// Envoy never gives back what it asked for by name: beyond a number of such
// clusters it gets no more, and is told so at once.
func TestClustersOnDemandAreBounded(t *testing.T) {
	cat := catalogOf([]byte{1}, []byte{2, 3, 4, 5}, 9)
	s := newSubscription(render.ClusterType)
	s.room = newRoom(4)
	s.request(cat, nil, nil, nil)
	want(t, drain(t, s, cat), name(1))
	if asked := s.request(cat, []string{name(2), name(3), name(4)}, nil, nil); !slices.Equal(asked, []string{name(2), name(3), name(4)}) {
		t.Errorf("noted as asked for: %v", asked)
	}
	want(t, drain(t, s, cat), strings.Join([]string{name(2), name(3), "-" + name(4)}, " "))
	next := catalogOf([]byte{1}, []byte{2, 3, 4, 5}, 10)
	s.markAll(next)
	want(t, drain(t, s, next)) // clusters do not depend on endpoints, and what was refused stays so
	near := catalogOf([]byte{1, 4}, []byte{2, 3, 5}, 9)
	s.markAll(near)
	want(t, drain(t, s, near), name(4)) // what is preloaded needs no room
	if len(s.over) > 0 {
		t.Errorf("over %v, which is preloaded", s.over)
	}

	// There is room for what was refused once others were given back, which no Envoy does.
	late := newSubscription(render.ClusterType)
	late.room = newRoom(4)
	late.request(cat, []string{name(2), name(3), name(4)}, nil, nil)
	want(t, drain(t, late, cat), strings.Join([]string{name(2), name(3), "-" + name(4)}, " "))
	late.request(cat, nil, []string{name(2), name(3)}, nil)
	late.request(cat, []string{name(4)}, nil, nil)
	if want(t, drain(t, late, cat), name(4)); len(late.over) > 0 {
		t.Errorf("over %v, for which there is room", late.over)
	}

	// Another agent, the same Envoy: what it holds comes first.
	again := newSubscription(render.ClusterType)
	again.room = newRoom(4)
	again.request(cat, []string{"*", name(5), name(4), name(3), name(2)}, nil, map[string]string{
		name(1): s.sent[name(1)], name(2): s.sent[name(2)], name(3): s.sent[name(3)],
	})
	want(t, drain(t, again, cat), "-"+name(4)+" -"+name(5))
	again.request(cat, nil, []string{name(2)}, nil) // no Envoy does that
	if !again.over[name(5)] || again.room.full("default") {
		t.Errorf("over %v, room for %v", again.over, again.room)
	}
}

// One tenant's Services, or one of many ports, take half of the room at most, and
// all others have the other half.
func TestRoomOfOneNamespace(t *testing.T) {
	r := newRoom(400)
	fill := func(namespace string) (n int) {
		for !r.full(namespace) {
			r.take(fmt.Sprint(namespace, n), namespace)
			n++
		}
		return n
	}
	if a, b, c, d := fill("a"), fill("b"), fill("c"), fill("d"); a != 200 || b != 100 || c != 100 || d != 0 {
		t.Errorf("the namespaces got %d, %d, %d and %d of 400", a, b, c, d)
	}
	for n, want := range map[int]int{1: 200, 2: 150, 3: 100, 4: 100, 5: 80} { // that are dialled side by side
		turns := newRoom(400)
		for i := range 400 {
			for who := range n {
				if space := fmt.Sprint(who); !turns.full(space) {
					turns.take(fmt.Sprint(space, ":", i), space)
				}
			}
		}
		if turns.spaces["0"] != want {
			t.Errorf("each of %d namespaces got %d of 400, want %d", n, turns.spaces["0"], want)
		}
	}
	r.take("more", "e") // a preloaded one
	r.leave("b0")
	r.leave("more")
	if r.full("e") || r.full("b") || !r.full("a") || len(r.of) != 399 {
		t.Errorf("%d clusters, of %v: there is room for one more, and not of a", len(r.of), r.spaces)
	}
}

// Where one tenant dials more than there is room for, another's Service is served, and
// what was refused comes once it is preloaded.
func TestOneTenantsDialsLeaveRoom(t *testing.T) {
	c := newCluster(t)
	c.server.cfg.MaxOnDemand = 4
	c.namespaces = map[byte]string{9: "other"}
	all := []byte{1, 2, 3, 4, 5, 9}
	c.far(7, all...)
	c.publish()
	h := newHolder(c)
	for _, n := range all {
		h.subscribe(render.ClusterType, name(n))
	}
	h.drain()
	held := func() (list []byte) {
		for _, n := range all {
			if _, holds := h.stream.subs[render.ClusterType].sent[name(n)]; holds {
				list = append(list, n)
			}
		}
		return list
	}
	if got := held(); !slices.Equal(got, []byte{1, 2, 9}) {
		t.Errorf("served: %v", got)
	}
	if over := c.metric("gridmesh_xds_clusters_over"); over != 3 {
		t.Errorf("%v clusters were asked for in vain, want 3", over)
	}
	c.near(7, 4)
	h.look()
	if got, over := held(), c.metric("gridmesh_xds_clusters_over"); !slices.Equal(got, []byte{1, 2, 4, 9}) || over != 2 {
		t.Errorf("served: %v; %v asked for in vain", got, over)
	}
}

// A peer that does not read costs what it holds, not what has changed since.
func TestAHungReaderCostsBoundedMemory(t *testing.T) {
	c := newCluster(t)
	c.near(9, 1)
	c.publish()
	p := newPeer(t, c)
	p.subscribe(render.ClusterType)
	p.drain()
	// Responses without an answer, so that nothing more may be sent.
	for i := range byte(2 * maxInflight) {
		c.near(9, 10+i)
		cat, changed := c.next(false)
		c.server.Update(cat, changed)
		p.stream.mark(changed, false)
		p.stream.takeDirty()
		p.flush()
	}
	pending := func() int { return len(p.stream.subs[render.ClusterType].pending) }
	before := pending()
	for hour := range 200 {
		names := make([]string, 500)
		for i := range names {
			names[i] = fmt.Sprintf("10.%d.%d.%d:80", hour, i>>8, i&255)
		}
		p.stream.mark(render.Changed{render.ClusterType: names, render.EndpointType: names, render.ListenerType: names}, false)
		n := 0
		for _, dirty := range p.stream.dirty {
			n += len(dirty)
		}
		if n > maxDirty {
			t.Fatalf("%d names are remembered for a peer that does not read", n)
		}
	}
	p.stream.takeDirty()
	p.flush()
	if n := pending(); n > before+2*maxInflight {
		t.Errorf("%d names wait to be sent, %d did before: of clusters that Envoy never knew", n, before)
	}
	for i := range 100 { // and one by one, as a peer that reads slowly sees it
		p.stream.mark(render.Changed{render.ClusterType: {fmt.Sprintf("10.250.%d.1:80", i), fmt.Sprintf("10.250.%d.2:80", i)}}, false)
		p.stream.takeDirty()
		p.flush()
	}
	if n := pending(); n > before+2*maxInflight {
		t.Errorf("%d names wait to be sent, %d did before", n, before)
	}
	p.converged()
}

// The first request says who connects; nobody is served without that.
func TestAPeerSaysWhoItIsFirst(t *testing.T) {
	c := serving(t, []byte{1}, nil)
	nobody := xdstest.Dial(t, c.socket)
	nobody.Anonymous()
	nobody.Subscribe(render.ClusterType)
	if err := nobody.End(); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "has no node") {
		t.Errorf("a stream whose first request has no node ends with %v", err)
	}

	// Some send the node with every request; it is looked at once.
	var lines bytes.Buffer
	c = newCluster(t)
	c.server.cfg.Log = slog.New(slog.NewTextHandler(&lines, nil))
	c.publish()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	p := &pipe{ctx: ctx, requests: make(chan *discovery.DeltaDiscoveryRequest), responses: make(chan *discovery.DeltaDiscoveryResponse, 10)}
	ended := make(chan error)
	go func() { ended <- c.server.DeltaAggregatedResources(p) }()
	for range 5 {
		p.requests <- &discovery.DeltaDiscoveryRequest{TypeUrl: render.ClusterType, Node: xdstest.Node(40)}
	}
	cancel()
	<-ended
	if n := strings.Count(lines.String(), "Envoy connected"); n != 1 {
		t.Errorf("said %d times that Envoy is connected", n)
	}
}
