package model

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/topology/topologytest"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func after(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }

// observe notes in a history what a snapshot has otherwise than the one before.
func observe(h *History, at time.Time, snap *topology.Snapshot) {
	have := contents(snap)
	for id := range h.objects {
		if _, ok := have[id]; !ok {
			h.add(id, version{at: at})
		}
	}
	for id, v := range have {
		v.at = at
		h.add(id, v)
	}
}

// A node that was not told yet that its label is back goes by what it was told.
func TestNodeMay(t *testing.T) {
	moved := func(n *topology.Node) bool { return n.Labels["unit"] != "north" }
	h, told := NewHistory("unit"), NewTold("a")
	at := func(n int, unit string) *topology.Snapshot {
		b := topology.NewBuilder()
		b.SetNode(node("a", unit))
		snap := b.Build()
		observe(h, after(n), snap)
		return snap
	}
	told.Saw(h, after(0), at(0, "north"))
	told.Saw(h, after(10), at(10, "south"))
	back := at(20, "north")
	for _, n := range []int{11, 25, 60} {
		if !h.NodeMay(told, "a", after(n), after(n+1), moved) {
			t.Errorf("after %d s it was told all", n)
		}
	}
	told.Saw(h, after(70), back)
	if h.NodeMay(told, "a", after(71), after(72), moved) {
		t.Error("it was told, and still goes by what was before")
	}
}

// A node that was told everything may be answered by what it sees, and by
// nobody else: over random histories, for every frontend and every address.
func TestToldEverything(t *testing.T) {
	for seed := range uint64(4) {
		w := topologytest.New(seed)
		h, told := NewHistory("site", "zone", "topology.kubernetes.io/zone"), NewTold("n0")
		yes, no := 0, 0
		for i := range 60 {
			w.Step()
			snap := w.Builder.Build()
			observe(h, after(2*i), snap)
			told.Saw(h, after(2*i), snap)
			if err := Behind(h, snap); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if i%10 != 9 {
				continue
			}
			view := topology.See(snap, "n0", topology.Options{})
			may := map[topology.Frontend]map[netip.AddrPort]bool{}
			for _, sv := range view.Sorted() {
				for _, f := range sv.Frontends {
					if may[f.Frontend] == nil {
						may[f.Frontend] = map[netip.AddrPort]bool{}
					}
					for _, tier := range f.Tiers {
						for _, end := range tier.Endpoints {
							may[f.Frontend][end.Addr] = true
						}
					}
				}
			}
			owners := map[netip.Addr]int{} // an API server gives an address to one Service alone
			for _, e := range snap.Services.All() {
				if e.Service != nil {
					for _, ip := range e.Service.ClusterIPs {
						owners[ip]++
					}
				}
			}
			for f, want := range may {
				if owners[f.Addr] > 1 {
					continue
				}
				for n := range byte(12) {
					end := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, 0, n}), 8080)
					got := h.Allowed(told, f, end, Span{From: after(2 * i), To: after(2*i + 1)})
					if got != want[end] {
						t.Fatalf("seed %d, step %d: %s answered by %s is allowed: %v", seed, i, f, end, got)
					}
					if got {
						yes++
					} else {
						no++
					}
				}
			}
		}
		if yes+no == 0 {
			t.Errorf("seed %d asked nothing", seed)
		}
	}
}

var (
	web      = topology.ObjectKey{Namespace: "default", Name: "web"}
	frontend = topology.Frontend{Addr: netip.MustParseAddr("10.96.0.1"), Port: 80, Protocol: topology.TCP}
	onA      = netip.MustParseAddrPort("10.244.1.2:8080")
	onB      = netip.MustParseAddrPort("10.244.2.2:8080")
)

func service(keys string) *topology.Service {
	s := &topology.Service{Key: web, ClusterIPs: []netip.Addr{frontend.Addr}, Ports: []topology.ServicePort{{Protocol: topology.TCP, Port: 80}}}
	if keys != "" {
		s.TopologyKeys = &keys
	}
	return s
}

func slice(nodes ...string) *topology.Slice {
	s := &topology.Slice{Key: web, Service: web.Name, Ports: []topology.SlicePort{{Protocol: topology.TCP, Port: 8080}}}
	for _, n := range nodes {
		addr := map[string]netip.Addr{"a": onA.Addr(), "b": onB.Addr()}[n]
		s.Endpoints = append(s.Endpoints, topology.Endpoint{Addr: addr, Node: n, Ready: true, Serving: true})
	}
	return s
}

func node(name, unit string) *topology.Node {
	return &topology.Node{Name: name, Labels: map[string]string{"unit": unit, "other": name}}
}

// told is a world of two units in which node a knows all up to second 2.
func told(t *testing.T) (*History, *Told) {
	t.Helper()
	h, told := NewHistory("unit"), NewTold("a")
	h.SetService(after(1), web, service(""))
	h.SetSlice(after(1), web, slice("a", "b"))
	h.SetNode(after(1), "a", node("a", "u"))
	h.SetNode(after(1), "b", node("b", "v"))
	see(h, told, 2)
	return h, told
}

// newest is what the API server has.
func newest(h *History) *topology.Snapshot {
	b := topology.NewBuilder()
	for _, list := range h.objects {
		list[len(list)-1].put(b)
	}
	return b.Build()
}

func see(h *History, t *Told, at int) { t.Saw(h, after(at), newest(h)) }

// What was allowed stays so until the node was told otherwise.
func TestUntilTold(t *testing.T) {
	h, told := told(t)
	if !h.Allowed(told, frontend, onB, Span{From: after(3), To: after(4)}) || !h.AllowedNode(told, "b", Span{From: after(3), To: after(4)}) {
		t.Error("a Service without keys is not open")
	}
	h.SetService(after(5), web, service(`["unit"]`))
	if !h.Allowed(told, frontend, onB, Span{From: after(6), To: after(7)}) {
		t.Error("a node that was not told is blamed")
	}
	see(h, told, 8)
	if !h.Allowed(told, frontend, onB, Span{From: after(7), To: after(9)}) {
		t.Error("a node is blamed for what was before it was told")
	}
	if h.Allowed(told, frontend, onB, Span{From: after(9), To: after(10)}) || h.AllowedNode(told, "b", Span{From: after(9), To: after(10)}) {
		t.Error("a node that was told is not blamed")
	}
	if !h.Allowed(told, frontend, onA, Span{From: after(9), To: after(10)}) || !h.AllowedNode(told, "a", Span{From: after(9), To: after(10)}) {
		t.Error("its own unit is closed to it")
	}
	if h.Allowed(told, topology.Frontend{Addr: frontend.Addr, Port: 81, Protocol: topology.TCP}, onA, Span{From: after(9), To: after(10)}) {
		t.Error("another port leads somewhere")
	}
}

// Objects of different kinds come in any order.
func TestAnyOrder(t *testing.T) {
	h, told := told(t)
	h.SetSlice(after(3), web, slice("a"))
	h.SetService(after(4), web, service(`["unit"]`))
	see(h, told, 5)
	h.SetService(after(6), web, service(""))
	h.SetSlice(after(6), web, slice("a"))
	h.SetService(after(7), web, service(`["unit"]`))
	h.SetSlice(after(8), web, slice("a", "b"))
	if !h.Allowed(told, frontend, onB, Span{From: after(6), To: after(9)}) {
		t.Error("the slice of second 8 may be seen before the Service of second 7")
	}
	see(h, told, 10)
	if h.Allowed(told, frontend, onB, Span{From: after(11), To: after(12)}) {
		t.Error("after all of it was told there is no order but one")
	}
}

// An agent that starts again from its disk may know less, and what a partial
// snapshot lacks is not gone.
func TestFromDisk(t *testing.T) {
	h, told := told(t)
	old := newest(h)
	h.SetService(after(3), web, service(`["unit"]`))
	see(h, told, 4)
	told.Saw(h, after(20), old)
	if h.Allowed(told, frontend, onB, Span{From: after(6), To: after(7)}) {
		t.Error("what will be on disk counts before")
	}
	if !h.Allowed(told, frontend, onB, Span{From: after(19), To: after(21)}) {
		t.Error("what an agent has from its disk does not count")
	}
	see(h, told, 22)
	partial := topology.NewBuilder().Build()
	partial.Partial = true
	told.Saw(h, after(23), partial)
	if !h.Allowed(told, frontend, onA, Span{From: after(24), To: after(25)}) {
		t.Error("what a partial snapshot lacks is taken for gone")
	}
	if err := Behind(h, partial); err == nil {
		t.Error("a partial snapshot is not behind")
	}
	if err := Behind(h, old); err == nil || !strings.Contains(err.Error(), "service default/web") {
		t.Errorf("an old snapshot: %v", err)
	}
}

// Labels that do not matter make no version.
func TestLabelsThatMatter(t *testing.T) {
	h, _ := told(t)
	h.SetNode(after(3), "a", &topology.Node{Name: "a", Labels: map[string]string{"unit": "u", "other": "x"}})
	if n := len(h.objects[ID{Node, topology.ObjectKey{Name: "a"}}]); n != 2 {
		t.Errorf("%d versions", n)
	}
}

func TestTroubles(t *testing.T) {
	l := Troubles{{"a", Deaf, after(10), after(12)}, {"a", Deaf | Bare, after(14), after(15)}, {"b", Broken, after(20), time.Time{}}}
	for what, ok := range map[string]bool{
		"in it":               l.Any("a", Deaf, after(11), after(11)),
		"around it":           l.Any("a", Deaf, after(9), after(13)),
		"one of two effects":  l.Any("a", Bare, after(13), after(14)),
		"not between":         !l.Any("a", Deaf, after(13), after(13)),
		"not of the effect":   !l.Any("a", Broken, after(9), after(16)),
		"not on the node":     !l.Any("c", Deaf, after(9), after(16)),
		"it goes on":          l.Any("b", Broken, after(90), after(91)),
		"not before it began": !l.Any("b", Broken, after(1), after(19)),
	} {
		if !ok {
			t.Error(what)
		}
	}
	grace := 3 * time.Second
	for at, want := range map[int]int{5: 2, 11: 7, 16: 7, 17: 7, 19: 16} {
		if got := l.Before("a", Deaf, after(at), grace); !got.Equal(after(want)) {
			t.Errorf("at %d it had its grace from %s on, want %s", at, got.Sub(start), after(want).Sub(start))
		}
	}
	if got := l.Before("b", Broken, after(30), grace); !got.Equal(after(17)) {
		t.Errorf("what goes on: %s", got.Sub(start))
	}
}

// A Service is without endpoints where its pods said so themselves before the
// uplink went, until it is back; and for no other reason.
func TestUnserved(t *testing.T) {
	type said map[int]bool // from which second on it is ready
	always := said{0: true}
	restarts := said{0: true, 100: false, 160: true} // the uplink is away from 101 to 155
	for what, tc := range map[string]struct {
		agent, cloud, kubelet said
		at                    int
		want                  bool
	}{
		"while it is away":                     {restarts, restarts, restarts, 140, true},
		"until the slices follow":              {said{0: true, 100: false, 190: true}, said{0: true, 100: false, 189: true}, restarts, 180, true},
		"before the restart":                   {restarts, restarts, restarts, 80, false},
		"when the agent knows of one":          {restarts, restarts, restarts, 170, false},
		"what the agent was not told":          {always, restarts, restarts, 140, false},
		"the agent does not follow the cloud":  {said{0: true, 100: false}, restarts, restarts, 230, false},
		"the agent forgets":                    {said{0: true, 100: false, 101: true, 130: false}, said{0: true, 100: false, 101: true}, said{0: true, 100: false, 101: true}, 140, false},
		"the cloud's verdict, heard at a heal": {said{0: true, 156: false, 165: true}, said{0: true, 141: false, 164: true}, always, 158, false},
		"the same, after a restart long ago":   {said{0: true, 156: false, 165: true}, said{0: true, 50: false, 52: true, 141: false, 164: true}, said{0: true, 50: false, 51: true}, 158, false},
		"nobody said anything":                 {said{}, said{}, said{}, 140, false},
	} {
		of := func(s said) *Readiness {
			r := &Readiness{}
			for n := range 300 {
				if ready, changes := s[n]; changes {
					r.Set(after(n), ready)
				}
			}
			return r
		}
		u := Unserved{of(tc.agent), of(tc.cloud), []*Readiness{of(tc.kubelet)}}
		troubles := Troubles{{Node: "n", Effect: Deaf, From: after(101), To: after(155)}}
		since := troubles.Before("n", Deaf, after(tc.at), 5*time.Second)
		if got := u.May(since, after(tc.at), after(tc.at), 10*time.Second); got != tc.want {
			t.Errorf("%s: %v, want %v", what, got, tc.want)
		}
		// One of two pods that says nothing serves.
		u.Pods = append(u.Pods, of(always))
		if u.May(since, after(tc.at), after(tc.at), 10*time.Second) {
			t.Errorf("%s: excused beside a pod that is ready", what)
		}
	}
}
