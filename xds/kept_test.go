package xds

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/xds/render"
)

// What Envoy keeps for the kernel has the room that is left by what it asked for: what has no
// Service any more goes first, and all of it once the kernel hands over nothing else.
func TestWhatIsKeptIsBounded(t *testing.T) {
	s := newSubscription(render.ClusterType)
	s.room = newRoom(4)
	near := catalogOf([]byte{1, 2, 3, 4, 5, 6, 7, 8}, nil, 9)
	s.request(near, nil, nil, nil)
	drain(t, s, near)
	held := func(when string, want int) {
		t.Helper()
		if len(s.sent) != want {
			t.Errorf("%s: %d clusters are held, %d of them kept; want %d", when, len(s.sent), s.kept.len(), want)
		}
	}

	few := catalogOf([]byte{1, 2, 3, 4}, []byte{5, 6}, 9).Keeping()
	s.markAll(few)
	drain(t, s, few)
	if held("what there is room for", 8); s.crowded {
		t.Error("none had to go, and it is said")
	}
	far := catalogOf(nil, []byte{4, 5, 6, 7, 8}, 9).Keeping()
	s.markAll(far)
	drain(t, s, far)
	held("more than there is room for", 4)
	for _, gone := range []byte{1, 2, 3} {
		if _, holds := s.sent[name(gone)]; holds {
			t.Errorf("%s has no Service, and is kept before one that has", name(gone))
		}
	}
	s.request(far, []string{name(99)}, nil, nil)
	drain(t, s, far)
	if held("one is asked for", 4); s.sent[name(99)] == "" || s.kept.len() != 3 {
		t.Errorf("held: %v, of which %d are kept", s.sent, s.kept.len())
	}
	whole := catalogOf(nil, []byte{4, 5, 6, 7, 8}, 9)
	s.markAll(whole)
	drain(t, s, whole)
	if held("nothing is kept any more", 1); s.kept.len() > 0 {
		t.Errorf("%d are counted that are not held", s.kept.len())
	}
}

// Where all the room is taken by what was asked for, which is nothing that could be fetched
// again then, an eighth more is there for what is kept.
func TestWhatIsKeptHasRoomOfItsOwn(t *testing.T) {
	const most = 16
	s := newSubscription(render.ClusterType)
	s.room = newRoom(most)
	near := catalogOf([]byte{1, 2, 3}, nil, 9)
	s.request(near, nil, nil, nil)
	drain(t, s, near)
	for i := range most {
		s.room.take(name(byte(100+i)), "scanned")
	}
	far := catalogOf(nil, []byte{1, 2, 3}, 9).Keeping()
	s.markAll(far)
	if drain(t, s, far); len(s.sent) != 2 || s.kept.len() != 2 || !s.crowded {
		t.Errorf("%d clusters are held, %d of them kept; want 2", len(s.sent), s.kept.len())
	}
}

// For hours in which the kernel takes no write namespaces come and go: Envoy does not keep the
// clusters of all of them. What it holds at a reconnect counts as well.
func TestNamespacesThatComeAndGoFillNoEnvoy(t *testing.T) {
	const most = 6
	s := newSubscription(render.ClusterType)
	s.room = newRoom(most)
	s.request(catalogOf(nil, nil, 9).Keeping(), nil, nil, nil)
	for i := range byte(200) {
		cat := catalogOf([]byte{i, i + 1}, nil, 9).Keeping()
		s.markAll(cat)
		drain(t, s, cat)
		if len(s.sent) > most+2 {
			t.Fatalf("after %d: %d clusters are held, two of them preloaded", i, len(s.sent))
		}
	}
	again := newSubscription(render.ClusterType)
	again.room = newRoom(most / 2)
	cat := catalogOf(nil, nil, 9).Keeping()
	again.request(cat, []string{"*"}, nil, s.sent)
	drain(t, again, cat)
	if len(again.sent) != most/2 {
		t.Errorf("an Envoy that reconnects with %d clusters keeps %d", len(s.sent), len(again.sent))
	}
}

// The endpoints of what is kept count among those of what was asked for. That there is no room is
// said, once.
func TestEndpointsOfWhatIsKeptAreBounded(t *testing.T) {
	const most = 4
	c := newCluster(t)
	var lines bytes.Buffer
	c.server.cfg.MaxOnDemand, c.server.cfg.Log = most, slog.New(slog.NewTextHandler(&lines, nil))
	all := []byte{1, 2, 3, 4, 5, 6}
	c.near(9, all...)
	c.publish()
	h := newHolder(c)
	for _, n := range all {
		h.subscribe(render.EndpointType, name(n))
	}
	h.drain()
	for round := range 3 {
		for _, n := range all {
			c.wide(n, nil, 0, 20+round)
		}
		cat, changed := c.next(false)
		c.cataloger.Used(nil, nil) // nor is any held for having been near
		c.server.Update(cat.Keeping(), changed)
		h.stream.takeDirty()
		h.flush()
		h.drain()
	}
	clusters, n := h.types[render.ClusterType].held, 0
	for name, endpoints := range h.held {
		if _, holds := clusters[name]; holds {
			n += len(endpoints)
		}
	}
	if kept := c.server.Streams()[0].Kept; kept != most || len(clusters) != most || n == 0 || n > most*endpointsOnDemand {
		t.Errorf("%d clusters are held, %d by the status, with %d endpoints; want %d, with %d at most", len(clusters), kept, n, most, most*endpointsOnDemand)
	}
	if said := strings.Count(lines.String(), "the ones without a Service are removed first"); said != 1 {
		t.Errorf("said %d times", said)
	}
}

// keptAreHeld checks that a stream counts nothing as kept that its peer has not.
func (p *peer) keptAreHeld() {
	p.t.Helper()
	for _, s := range p.stream.subs {
		for _, list := range []map[string]bool{s.kept.served, s.kept.gone} {
			for name := range list {
				if _, holds := s.sent[name]; !holds {
					p.t.Fatalf("%s counts as kept, and is not held", name)
				}
			}
		}
	}
}
