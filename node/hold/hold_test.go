package hold

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/topology/topologytest"
)

var healed = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// world is a small cluster: "web" has endpoints "NODE ADDRESS[ STATE]", in one
// slice; nodes are a-1 and a-2 of unit a, b-1 of unit b.
type world struct{ b *topology.Builder }

func newWorld() world {
	w := world{topology.NewBuilder()}
	for _, name := range []string{"a-1", "a-2", "b-1"} {
		w.b.SetNode(&topology.Node{Name: name, Labels: map[string]string{"unit": name[:1]}})
	}
	return w
}

// begin is a hold without a past.
func begin(base *topology.Snapshot, node string, at time.Time) *Hold {
	return New(Start{Base: base, Node: node, Began: at})
}

func (w world) service(name string, endpoints ...string) world {
	keys := `["unit"]`
	w.b.SetService(&topology.Service{Key: key(name), TopologyKeys: &keys})
	w.b.SetSlice(slice(name, name, 8080, endpoints...))
	return w
}

func key(name string) topology.ObjectKey {
	return topology.ObjectKey{Namespace: "default", Name: name}
}

func slice(name, service string, port uint16, endpoints ...string) *topology.Slice {
	s := &topology.Slice{Key: key(name), Service: service, Ports: []topology.SlicePort{{Name: "http", Protocol: topology.TCP, Port: port}}}
	for _, text := range endpoints {
		f := strings.Fields(text + " ready")
		e := topology.Endpoint{Node: f[0], Addr: netip.MustParseAddr(f[1])}
		e.Ready, e.Serving, e.Terminating = f[2] == "ready", f[2] == "ready" || f[2] == "ending", f[2] == "ending"
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}

// text is every endpoint of a snapshot: "SERVICE ADDRESS STATE".
func text(s *topology.Snapshot) string {
	var list []string
	for k, entry := range s.Services.All() {
		for _, slice := range entry.Slices {
			for _, e := range slice.Endpoints {
				state := map[bool]string{true: "ready", false: "not"}[e.Ready]
				if e.Terminating {
					state = "ending"
				}
				port := uint16(0)
				if len(slice.Ports) > 0 {
					port = slice.Ports[0].Port
				}
				list = append(list, fmt.Sprintf("%s %s:%d %s", k.Name, e.Addr, port, state))
			}
		}
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func TestWhatIsHeld(t *testing.T) {
	before := newWorld().service("web", "a-1 10.0.0.1", "a-2 10.0.0.2", "b-1 10.0.0.3", "a-2 10.0.0.4 not", "a-2 10.0.0.5 ending")
	base := before.b.Build()
	for name, tc := range map[string]struct {
		next func(w world)
		want string
		held int
	}{
		"nothing changed": {
			func(world) {},
			"web 10.0.0.1:8080 ready, web 10.0.0.2:8080 ready, web 10.0.0.3:8080 ready, web 10.0.0.4:8080 not, web 10.0.0.5:8080 ending", 0,
		},
		"all not ready: only the unit's own that were": {
			func(w world) {
				w.service("web", "a-1 10.0.0.1 not", "a-2 10.0.0.2 not", "b-1 10.0.0.3 not", "a-2 10.0.0.4 not", "a-2 10.0.0.5 not")
			},
			"web 10.0.0.1:8080 ready, web 10.0.0.2:8080 ready, web 10.0.0.3:8080 not, web 10.0.0.4:8080 not, web 10.0.0.5:8080 not", 2,
		},
		"terminating": {
			func(w world) { w.service("web", "a-1 10.0.0.1", "a-2 10.0.0.2 ending", "b-1 10.0.0.3 ending") },
			"web 10.0.0.1:8080 ready, web 10.0.0.2:8080 ready, web 10.0.0.3:8080 ending", 1,
		},
		"removed": {
			func(w world) { w.service("web", "a-1 10.0.0.1", "a-2 10.0.0.6") },
			"web 10.0.0.1:8080 ready, web 10.0.0.2:8080 ready, web 10.0.0.6:8080 ready", 1,
		},
		"removed with its slice": {
			func(w world) { w.b.DeleteSlice(key("web")) },
			"web 10.0.0.1:8080 ready, web 10.0.0.2:8080 ready", 2,
		},
		"moved to another slice, not ready": {
			func(w world) {
				w.b.DeleteSlice(key("web"))
				w.b.SetSlice(slice("web-2", "web", 8080, "a-1 10.0.0.1 not", "a-2 10.0.0.2"))
			},
			"web 10.0.0.1:8080 ready, web 10.0.0.2:8080 ready", 1,
		},
		"a new slice of the same name leads elsewhere": {
			func(w world) { w.b.SetSlice(slice("web", "web", 9090, "a-1 10.0.0.6")) },
			"web 10.0.0.6:9090 ready", 0,
		},
		"the Service was deleted": {
			func(w world) { w.b.DeleteService(key("web")); w.b.DeleteSlice(key("web")) },
			"", 0,
		},
		"the address is another Service's by now": {
			func(w world) { w.service("web", "a-1 10.0.0.1").service("other", "a-2 10.0.0.2 not") },
			"other 10.0.0.2:8080 not, web 10.0.0.1:8080 ready", 0,
		},
		"the address is on another node of the unit by now": {
			func(w world) { w.service("web", "a-1 10.0.0.1", "a-1 10.0.0.2 not") },
			"web 10.0.0.1:8080 ready, web 10.0.0.2:8080 not", 0,
		},
		"a unit with the same ranges has the address": {
			func(w world) { w.service("web", "a-1 10.0.0.1", "b-1 10.0.0.2") },
			"web 10.0.0.1:8080 ready, web 10.0.0.2:8080 ready, web 10.0.0.2:8080 ready", 1,
		},
		"the address is another Service's by now, at another port": {
			func(w world) {
				w.service("web", "a-1 10.0.0.1").service("other")
				w.b.SetSlice(slice("other", "other", 9100, "a-2 10.0.0.2"))
			},
			"other 10.0.0.2:9100 ready, web 10.0.0.1:8080 ready, web 10.0.0.2:8080 ready", 1,
		},
		"the address is another Service's by now, which names no port": {
			func(w world) {
				w.service("web", "a-1 10.0.0.1").service("other")
				s := slice("other", "other", 0, "a-2 10.0.0.2")
				s.Ports = nil
				w.b.SetSlice(s)
			},
			"other 10.0.0.2:0 ready, web 10.0.0.1:8080 ready", 0,
		},
		"the slice is another Service's by now": {
			func(w world) {
				w.service("other")
				w.b.SetSlice(slice("web", "other", 8080, "a-1 10.0.0.7"))
			},
			"other 10.0.0.7:8080 ready", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld().service("web", "a-1 10.0.0.1", "a-2 10.0.0.2", "b-1 10.0.0.3", "a-2 10.0.0.4 not", "a-2 10.0.0.5 ending")
			tc.next(w)
			got, held := begin(base, "a-1", healed).Apply(w.b.Build(), healed)
			if text(got) != tc.want || held.Endpoints != tc.held {
				t.Errorf("%d held: %s\nwant %d: %s", held.Endpoints, text(got), tc.held, tc.want)
			}
			if got := text(base); !strings.Contains(got, "web 10.0.0.4:8080 not") || strings.Count(got, "ready") != 3 {
				t.Errorf("what was in force was written to: %s", got)
			}
		})
	}
}

// Without keys in use the unit is the node itself; Services without keys are
// held like the others.
func TestUnit(t *testing.T) {
	all := []string{"a-1 10.0.0.1", "a-2 10.0.0.2", "b-1 10.0.0.3"}
	none := []string{"a-1 10.0.0.1 not", "a-2 10.0.0.2 not", "b-1 10.0.0.3 not"}
	for name, tc := range map[string]struct {
		node  string
		keyed bool // there is a Service with keys
		want  []string
	}{
		"keys in use":       {"a-1", true, []string{"a-1", "a-2"}},
		"no keys":           {"a-1", false, []string{"a-1"}},
		"an unlabelled one": {"c-1", true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.b.SetService(&topology.Service{Key: key("plain")})
			w.b.SetSlice(slice("plain", "plain", 80, all...))
			if tc.keyed {
				w.service("web", all...)
			}
			h := begin(w.b.Build(), tc.node, healed)
			w.b.SetSlice(slice("plain", "plain", 80, none...))
			_, held := h.Apply(w.b.Build(), healed)
			if !slices.Equal(held.Nodes, tc.want) || !slices.Equal(held.Unreported, tc.want) || held.Endpoints != len(tc.want) {
				t.Errorf("held: %+v, want on %v", held, tc.want)
			}
		})
	}
}

// A Node that the cloud deleted stays as long as something on it is held.
func TestNodesOfHeldEndpointsStay(t *testing.T) {
	w := newWorld().service("web", "a-1 10.0.0.1", "a-2 10.0.0.2")
	h := begin(w.b.Build(), "a-1", healed)
	w.service("web", "a-1 10.0.0.1")
	w.b.DeleteNode("a-2")
	w.b.DeleteNode("b-1")
	got, _ := h.Apply(w.b.Build(), healed)
	if n, ok := got.Nodes.Get("a-2"); !ok || n.Labels["unit"] != "a" || got.Nodes.Len() != 2 {
		t.Errorf("%d nodes, a-2 %v", got.Nodes.Len(), ok)
	}
	v := topology.See(got, "a-1", topology.Options{})
	if v.Viewpoint.Values["unit"] != "a" {
		t.Errorf("sees from %+v", v.Viewpoint)
	}
}

// The end of a hold, by node: its report and the time after it, or the bound.
func TestEnds(t *testing.T) {
	w := newWorld().service("web", "a-1 10.0.0.1", "a-2 10.0.0.2")
	h := begin(w.b.Build(), "a-1", healed)
	next := newWorld().service("web", "a-1 10.0.0.1 not", "a-2 10.0.0.2 not").b.Build()
	at := func(d time.Duration) (string, Held) {
		got, held := h.Apply(next, healed.Add(d))
		return text(got), held
	}
	const both, second, none = "web 10.0.0.1:8080 ready, web 10.0.0.2:8080 ready", "web 10.0.0.1:8080 not, web 10.0.0.2:8080 ready", "web 10.0.0.1:8080 not, web 10.0.0.2:8080 not"
	if got, held := at(0); got != both || !held.Next.Equal(healed.Add(Bound)) {
		t.Errorf("at once: %s, next %s", got, held.Next)
	}
	h.Reported("a-1", healed.Add(10*time.Second))
	h.Reported("a-1", healed.Add(20*time.Second)) // the first one counts
	if got, held := at(10*time.Second + Settle - 1); got != both || !held.Next.Equal(healed.Add(10*time.Second+Settle)) || !slices.Equal(held.Unreported, []string{"a-2"}) {
		t.Errorf("reported: %s, %+v", got, held)
	}
	if got, held := at(10*time.Second + Settle); got != second || held.Endpoints != 1 || !held.Next.Equal(h.End()) {
		t.Errorf("settled: %s, %+v", got, held)
	}
	h.Reported("a-2", healed.Add(Bound-time.Second)) // holds nothing up
	if got, held := at(Bound - 1); got != second || !held.Next.Equal(h.End()) {
		t.Errorf("before the bound: %s, %+v", got, held)
	}
	if got, held := h.Apply(next, healed.Add(Bound)); got != next || text(got) != none || !reflect.DeepEqual(held, Held{}) {
		t.Errorf("at the bound: %s, %+v", text(got), held)
	}
}

// What came back by itself is not held again, and tells that its node reports.
func TestBackByItself(t *testing.T) {
	w := newWorld().service("web", "a-2 10.0.0.1", "a-2 10.0.0.2")
	h := begin(w.b.Build(), "a-1", healed)
	step := func(d time.Duration, endpoints ...string) (string, Held) {
		got, held := h.Apply(newWorld().service("web", endpoints...).b.Build(), healed.Add(d))
		return text(got), held
	}
	step(0, "a-2 10.0.0.1", "a-2 10.0.0.2") // not known yet: no sign of the node
	if _, held := step(1, "a-2 10.0.0.1 not", "a-2 10.0.0.2 not"); held.Endpoints != 2 || len(held.Unreported) != 1 {
		t.Errorf("held: %+v", held)
	}
	if _, held := step(2*time.Second, "a-2 10.0.0.1", "a-2 10.0.0.2 not"); held.Endpoints != 1 || len(held.Unreported) != 0 || !held.Next.Equal(healed.Add(2*time.Second+Settle)) {
		t.Errorf("one is back: %+v", held)
	}
	if got, held := step(3*time.Second, "a-2 10.0.0.1 not", "a-2 10.0.0.2 not"); held.Endpoints != 1 || got != "web 10.0.0.1:8080 not, web 10.0.0.2:8080 ready" {
		t.Errorf("and went: %s", got)
	}
}

// Who changes a selector names other pods: what was there is let go for good.
// What says nothing of a selector, as a state of an older version, is no change.
func TestAnotherSelectorIsACommand(t *testing.T) {
	with := func(selector uint64, endpoints ...string) *topology.Snapshot {
		w := newWorld().service("web", endpoints...).service("other", "a-2 10.0.0.9 not")
		keys := `["unit"]`
		w.b.SetService(&topology.Service{Key: key("web"), TopologyKeys: &keys, Selector: selector})
		return w.b.Build()
	}
	const blue, green, unknown = 1, 2, 0
	for name, tc := range map[string]struct {
		base, next uint64
		want       int
	}{
		"the same":     {blue, blue, 2},
		"another":      {blue, green, 0},
		"not known":    {unknown, green, 2},
		"no more told": {blue, unknown, 2},
	} {
		h := begin(with(tc.base, "a-1 10.0.0.1", "a-2 10.0.0.2"), "a-1", healed)
		for when, next := range map[string]*topology.Snapshot{
			"not ready": with(tc.next, "a-1 10.0.0.1 not", "a-2 10.0.0.2 not"),
			"gone":      with(tc.next, "a-1 10.0.0.11", "a-2 10.0.0.12"),
		} {
			if _, held := h.Apply(next, healed); held.Endpoints != tc.want {
				t.Errorf("%s, %s: %d held, want %d", name, when, held.Endpoints, tc.want)
			}
		}
	}
	h := begin(with(blue, "a-1 10.0.0.1", "a-2 10.0.0.2"), "a-1", healed)
	h.Apply(with(blue, "a-1 10.0.0.1 not"), healed)
	h.Apply(with(green, "a-1 10.0.0.11"), healed.Add(1))
	if got, held := h.Apply(with(blue, "a-1 10.0.0.1 not"), healed.Add(2)); held.Endpoints != 0 {
		t.Errorf("and back: %s", text(got))
	}
}

// A Service that is left to others is theirs.
func TestAServiceLeftToOthersIsNotHeld(t *testing.T) {
	h := begin(newWorld().service("web", "a-1 10.0.0.1").b.Build(), "a-1", healed)
	w := newWorld().service("web", "a-1 10.0.0.1 not")
	w.b.SetService(&topology.Service{Key: key("web"), Foreign: true})
	if got, held := h.Apply(w.b.Build(), healed); held.Endpoints != 0 {
		t.Errorf("held: %s", text(got))
	}
}

// Pods with hostNetwork share the address of their node, and no port: that of
// another Service, new or not, says nothing of ours.
func TestHostNetwork(t *testing.T) {
	const node = "a-2 192.168.0.2"
	hosts := func(web []string, ports ...uint16) *topology.Snapshot { // other's pods, by port
		w := newWorld().service("web", web...).service("other")
		w.b.DeleteSlice(key("other"))
		for _, port := range ports {
			w.b.SetSlice(slice(fmt.Sprint("other-", port), "other", port, node))
		}
		return w.b.Build()
	}
	for name, tc := range map[string]struct {
		before, after []uint16
		want          int
	}{
		"a new neighbour":               {nil, []uint16{9100}, 1},
		"an old one":                    {[]uint16{9100}, []uint16{9100}, 1},
		"one more":                      {[]uint16{9100}, []uint16{9100, 9200}, 1},
		"one that has our port now":     {nil, []uint16{8080}, 0},
		"an old one that has it now":    {[]uint16{9100}, []uint16{9100, 8080}, 0},
		"the same pod, of two Services": {[]uint16{8080}, []uint16{8080}, 1},
		"one that is gone like ours":    {[]uint16{9100}, nil, 2}, // both are held
	} {
		_, held := begin(hosts([]string{node}, tc.before...), "a-1", healed).Apply(hosts(nil, tc.after...), healed)
		if held.Endpoints != tc.want {
			t.Errorf("%s: %d held, want %d", name, held.Endpoints, tc.want)
		}
	}
}

// What is held stays the same pointer while its Service does.
func TestHeldEntriesAreKept(t *testing.T) {
	w := newWorld().service("web", "a-1 10.0.0.1").service("other", "a-1 10.0.0.2")
	h := begin(w.b.Build(), "a-1", healed)
	w.service("web", "a-1 10.0.0.1 not")
	one, _ := h.Apply(w.b.Build(), healed)
	w.service("other", "a-1 10.0.0.2", "a-1 10.0.0.3")
	two, _ := h.Apply(w.b.Build(), healed.Add(time.Second))
	var changed []string
	for k := range two.Changed(one) {
		changed = append(changed, k.Name)
	}
	if !slices.Equal(changed, []string{"other"}) {
		t.Errorf("changed: %v", changed)
	}
}

// Laws, over random histories: a hold adds readiness, on nodes of the unit,
// where there was some before, and takes nothing; a fresh one does the same as
// one that has seen the step before; and it ends.
func TestLaws(t *testing.T) {
	for seed := range uint64(60) {
		w := topologytest.New(seed)
		for range 60 {
			w.Step()
		}
		base := w.Builder.Build()
		h := begin(base, "n0", healed)
		for i := range 30 {
			for range 1 + w.IntN(3) {
				w.Step()
			}
			next, now := w.Builder.Build(), healed.Add(time.Duration(i)*time.Second)
			if w.IntN(10) == 0 {
				h.Reported(fmt.Sprint("n", w.IntN(5)), now)
			}
			got, held := h.Apply(next, now)
			if err := lawful(h, next, got, held); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, i, err)
			}
			fresh := begin(base, "n0", healed)
			fresh.reported, fresh.back, fresh.since = h.reported, h.back, h.since
			if again, _ := fresh.Apply(next, now); !same(got, again) {
				t.Fatalf("seed %d, step %d: another hold says\n%s\nthis one\n%s", seed, i, text(again), text(got))
			}
		}
		next := w.Builder.Build()
		if got, _ := h.Apply(next, healed.Add(Bound)); got != next {
			t.Fatalf("seed %d: no end", seed)
		}
	}
}

// all are the ready endpoints by identity, and how many entries there are.
func ready(s *topology.Snapshot) map[Endpoint]bool {
	list := map[Endpoint]bool{}
	for k, entry := range s.Services.All() {
		for _, slice := range entry.Slices {
			for i := range slice.Endpoints {
				if e := &slice.Endpoints[i]; good(e) {
					list[Endpoint{k, e.Addr, e.Node}] = true
				}
			}
		}
	}
	return list
}

func lawful(h *Hold, next, got *topology.Snapshot, held Held) error {
	was, is, out := ready(h.base), ready(next), ready(got)
	for e := range is {
		if !out[e] {
			return fmt.Errorf("%v was taken away", e)
		}
	}
	for e := range out {
		if !is[e] && (!was[e] || !unitOf(h.base, "n0", e)) && !agrees(h, e, was, out) {
			return fmt.Errorf("%v is held for no reason", e)
		}
		if !is[e] && !slices.Contains(held.Nodes, e.Node) {
			return fmt.Errorf("%v is held, and %v does not say so", e, held)
		}
	}
	for k, entry := range got.Services.All() {
		if !slices.IsSortedFunc(entry.Slices, func(a, b *topology.Slice) int { return a.Key.Compare(b.Key) }) {
			return fmt.Errorf("slices of %s are not in order", k)
		}
	}
	if _, had := h.base.Nodes.Get("n0"); had {
		if _, has := got.Nodes.Get("n0"); !has {
			return fmt.Errorf("the own Node is gone")
		}
	}
	for e := range was {
		if _, had := h.base.Nodes.Get(e.Node); !had || !unitOf(h.base, "n0", e) {
			continue
		}
		if _, has := got.Nodes.Get(e.Node); !has {
			return fmt.Errorf("the Node of %v is gone", e)
		}
	}
	if same := reflect.DeepEqual(ready(got), is) && got.Nodes.Len() == next.Nodes.Len(); (got == next) != same {
		return fmt.Errorf("%d held, another snapshot: %v", held.Endpoints, got != next)
	}
	return nil
}

// agrees reports whether a Service that was made meanwhile is held where another
// of its namespace is, or has come back.
func agrees(h *Hold, e Endpoint, was, out map[Endpoint]bool) bool {
	if before, _ := h.base.Services.Get(e.Service); before != nil && before.Service != nil {
		return false
	}
	for o := range was {
		if o.Service.Namespace == e.Service.Namespace && o.Addr == e.Addr && o.Node == e.Node && out[o] && unitOf(h.base, "n0", o) {
			return true
		}
	}
	return false
}

func same(a, b *topology.Snapshot) bool { return text(a) == text(b) && a.Nodes.Len() == b.Nodes.Len() }

// One tenant's keys hold nothing more for another, and empty values nothing for
// anybody.
func TestKeysOfOneTenant(t *testing.T) {
	w := topology.NewBuilder()
	for _, name := range []string{"a-1", "a-2", "b-1"} {
		w.SetNode(&topology.Node{Name: name, Labels: map[string]string{"unit": name[:1], "os": "linux", "empty": ""}})
	}
	set := func(namespace, keys string, state string) {
		s := &topology.Service{Key: topology.ObjectKey{Namespace: namespace, Name: "web"}}
		if keys != "" {
			s.TopologyKeys = &keys
		}
		w.SetService(s)
		l := slice("web", "web", 80, "a-1 10.0.0.1"+state, "a-2 10.0.0.2"+state, "b-1 10.0.0.3"+state)
		l.Key = s.Key
		w.SetSlice(l)
	}
	spaces := map[string]string{"wide": `["os"]`, "closed": `["unit"]`, "empty": `["empty"]`, "plain": "", "broken": "oops"}
	for namespace, keys := range spaces {
		set(namespace, keys, "")
	}
	h := begin(w.Build(), "a-1", healed)
	for namespace, keys := range spaces {
		set(namespace, keys, " not")
	}
	got, _ := h.Apply(w.Build(), healed)
	count := map[string]int{}
	for e := range ready(got) {
		count[e.Service.Namespace]++
	}
	if want := map[string]int{"wide": 3, "closed": 2, "empty": 1, "plain": 1, "broken": 1}; !reflect.DeepEqual(count, want) {
		t.Errorf("held: %v, want %v", count, want)
	}
}

// Whose Node was deleted is in the unit all the same, and an endpoint that is
// ready there too.
func TestTheOwnNodeStays(t *testing.T) {
	w := newWorld().service("web", "a-1 10.0.0.1", "a-2 10.0.0.2")
	h := begin(w.b.Build(), "a-1", healed)
	w.b.DeleteNode("a-1")
	w.b.DeleteNode("a-2")
	next := w.b.Build()
	got, held := h.Apply(next, healed)
	if got.Nodes.Len() != 3 || held.Endpoints != 0 {
		t.Errorf("%d nodes, held: %+v", got.Nodes.Len(), held)
	}
	if got, _ := h.Apply(next, healed.Add(Bound)); got != next {
		t.Error("no end")
	}
}

func TestAfterABootNothingOfTheNodeIsHeld(t *testing.T) {
	w := newWorld().service("web", "a-1 10.0.0.1", "a-2 10.0.0.2")
	h := New(Start{Base: w.b.Build(), Node: "a-1", Began: healed, Booted: true})
	w.service("web", "a-1 10.0.0.1 not", "a-2 10.0.0.2 not")
	got, _ := h.Apply(w.b.Build(), healed)
	if text(got) != "web 10.0.0.1:8080 not, web 10.0.0.2:8080 ready" {
		t.Error(text(got))
	}
}

// A hold that begins inside another goes on with what that one left in force.
func TestAHoldInsideAHold(t *testing.T) {
	w := newWorld().service("web", "a-1 10.0.0.1", "a-2 10.0.0.2")
	h := begin(w.b.Build(), "a-1", healed)
	next := newWorld().service("web", "a-1 10.0.0.1 not").b.Build()
	inForce, _ := h.Apply(next, healed.Add(Bound-1))
	again := healed.Add(time.Hour)
	got, held := begin(inForce, "a-1", again).Apply(next, again)
	if held.Endpoints != 2 || text(got) != text(inForce) {
		t.Errorf("held: %+v, %s", held, text(got))
	}
}

// An Apply costs what may be held and what changed: whoever walks through all
// the others, in what was or in what is, comes across what nobody may touch.
func TestCostIsOfTheBase(t *testing.T) {
	const others = 1000
	fill := func(w world) {
		for i := range others {
			name := fmt.Sprint("s", i)
			w.service(name, "b-1 10.1.0.1")
			w.b.SetNode(&topology.Node{Name: "other-" + name})
		}
	}
	before := newWorld().service("web", "a-1 10.0.0.1", "a-2 10.0.0.2")
	fill(before)
	base := before.b.Build()
	h := begin(base, "a-1", healed)
	w := newWorld().service("web", "a-1 10.0.0.1")
	fill(w)
	first := w.b.Build()
	h.Apply(first, healed)
	poison(base)
	poison(first)

	step := func(what string, next *topology.Snapshot, at time.Duration) {
		t.Helper()
		defer func() {
			if r := recover(); r != nil {
				t.Fatalf("%s: all Services or Nodes are looked at: %v", what, r)
			}
		}()
		if _, held := h.Apply(next, healed.Add(at)); held.Endpoints != 1 {
			t.Fatalf("%s: held %+v", what, held)
		}
	}
	step("the same again", first, 1)
	step("time passes", first, Settle)
	edit := first.Services.Edit()
	web, _ := first.Services.Get(key("web"))
	again := *web
	edit.Set(key("web"), &again)
	next := *first
	next.Services = edit.Freeze()
	step("web changed", &next, Settle+1)
	edit = next.Services.Edit()
	edit.Set(key("more"), &topology.Entry{Slices: []*topology.Slice{slice("more", "more", 80, "b-1 10.0.0.9")}})
	more := next
	more.Services = edit.Freeze()
	step("one more", &more, Settle+2)
}

// poison puts what panics when it is looked at into all of a snapshot but web
// and what the nodes are that its endpoints are on.
func poison(s *topology.Snapshot) {
	for k, entry := range s.Services.All() {
		if k.Name != "web" {
			entry.Slices = []*topology.Slice{nil}
		}
	}
	nodes := s.Nodes.Edit()
	for name := range s.Nodes.All() {
		if strings.HasPrefix(name, "other-") {
			nodes.Set(name, nil)
		}
	}
	s.Nodes = nodes.Freeze()
}

func BenchmarkApply(b *testing.B) {
	w := topology.NewBuilder()
	keys := `["unit"]`
	for i := range 1000 {
		w.SetNode(&topology.Node{Name: fmt.Sprint("n", i), Labels: map[string]string{"unit": fmt.Sprint(i / 10)}})
	}
	r := rand.New(rand.NewPCG(1, 1))
	fill := func(unitReady bool) {
		for i := range 10_000 {
			name := fmt.Sprint("s", i)
			w.SetService(&topology.Service{Key: key(name), TopologyKeys: &keys})
			s := &topology.Slice{Key: key(name), Service: name}
			for j := range 10 {
				node := (i*7 + j*131) % 1000
				s.Endpoints = append(s.Endpoints, topology.Endpoint{Addr: netip.AddrFrom4([4]byte{10, byte(j), byte(i >> 8), byte(i)}), Node: fmt.Sprint("n", node), Ready: unitReady || node >= 10})
			}
			w.SetSlice(s)
		}
	}
	fill(true)
	h := begin(w.Build(), "n0", healed)
	fill(false)
	for b.Loop() {
		w.SetNode(&topology.Node{Name: "n999", Labels: map[string]string{"x": fmt.Sprint(r.Int())}})
		h.Apply(w.Build(), healed)
	}
}

// Units have the same ranges where nobody gave them others: what happens to an
// address elsewhere says nothing of ours.
func TestDuplicateRangesAreHeld(t *testing.T) {
	base := newWorld().service("web", "a-1 10.0.0.1", "b-1 10.0.0.1").service("other").b.Build()
	for name, next := range map[string]world{
		"ours is not ready": newWorld().service("web", "a-1 10.0.0.1 not", "b-1 10.0.0.1").service("other"),
		"none is ready":     newWorld().service("web", "a-1 10.0.0.1 not", "b-1 10.0.0.1 not").service("other"),
		"ours is gone":      newWorld().service("web", "b-1 10.0.0.1").service("other"),
		"a new pod there":   newWorld().service("web", "b-1 10.0.0.1").service("other", "b-1 10.0.0.1"),
	} {
		got, held := begin(base, "a-1", healed).Apply(next.b.Build(), healed)
		entry, _ := got.Services.Get(key("web"))
		ready := false
		for _, slice := range entry.Slices {
			for _, e := range slice.Endpoints {
				ready = ready || e.Node == "a-1" && e.Ready
			}
		}
		if held.Endpoints != 1 || !ready {
			t.Errorf("%s: %d held, ready %t: %s", name, held.Endpoints, ready, text(got))
		}
	}
}
