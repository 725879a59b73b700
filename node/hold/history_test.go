package hold

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// history is a cluster that changes at random, seen over a link that comes and
// goes by an agent that is restarted.
type history struct {
	*rand.Rand
	cloud *topology.Builder
	now   time.Time // of the cloud's last word
	past  Past
	calm  bool // little happens but outages
	makes bool // Services are made during these

	inForce *topology.Snapshot
	real    *Hold
	twin    *twin
}

func newHistory(seed uint64) *history {
	h := &history{Rand: rand.New(rand.NewPCG(seed, 7)), cloud: topology.NewBuilder(), now: healed, calm: seed%4 == 0, makes: seed >= 120}
	for range 80 {
		h.change()
	}
	h.inForce = h.cloud.Build()
	h.heal(false)
	return h
}

func (h *history) one(list ...string) string { return list[h.IntN(len(list))] }

func (h *history) key(name string) topology.ObjectKey {
	return topology.ObjectKey{Namespace: h.one("x", "y"), Name: name}
}

// changes are some by somebody in the cloud, or what its node lifecycle makes of
// a silence, or a node that speaks again.
func (h *history) changes(most int) {
	if h.calm && h.IntN(60) > 0 {
		return
	}
	switch h.IntN(8) {
	case 0, 1:
		h.word(h.one("", "a-1", "a-2"), false)
	case 2:
		h.word(h.one("a-1", "a-2"), true)
	}
	for range h.IntN(most) {
		h.change()
	}
}

// word has all endpoints of a node, or of all nodes, be ready or not, or gone.
func (h *history) word(node string, ready bool) {
	for _, s := range h.all() {
		s.Endpoints = slices.Clone(s.Endpoints)
		for i := range s.Endpoints {
			if e := &s.Endpoints[i]; node == "" || e.Node == node {
				e.Ready, e.Serving, e.Terminating = ready, ready, false
			}
		}
		if !ready && h.IntN(3) == 0 {
			s.Endpoints = slices.DeleteFunc(s.Endpoints, func(e topology.Endpoint) bool { return node == "" || e.Node == node })
		}
		h.cloud.SetSlice(&s)
	}
}

// all are copies of all slices, in order.
func (h *history) all() (list []topology.Slice) {
	services := h.cloud.Build().Services
	for _, key := range services.SortedKeys(topology.ObjectKey.Compare) {
		entry, _ := services.Get(key)
		for _, s := range entry.Slices {
			list = append(list, *s)
		}
	}
	return list
}

// change is one by somebody in the cloud.
func (h *history) change() {
	switch h.IntN(12) {
	case 0:
		h.setService()
	case 1:
		h.cloud.SetNode(&topology.Node{Name: h.one("a-1", "a-2", "a-3", "b-1"), Labels: map[string]string{"unit": h.one("a", "a", "b", ""), "zone": h.one("1", "2")}})
	case 2:
		h.cloud.DeleteSlice(h.key(fmt.Sprint("l", h.IntN(5))))
	case 3:
		if h.IntN(3) == 0 {
			h.cloud.DeleteNode(h.one("a-1", "a-2", "a-3", "b-1"))
		}
	case 4:
		if h.IntN(4) == 0 {
			h.cloud.DeleteService(h.key(fmt.Sprint("s", h.IntN(3))))
		}
	case 5, 6:
		h.setSlice()
	default:
		h.editSlice()
	}
}

func (h *history) setService() {
	s := &topology.Service{Key: h.key(fmt.Sprint("s", h.IntN(3))), Selector: uint64(max(0, h.IntN(4)-1)), Foreign: h.IntN(10) == 0}
	if text := h.one("", "", `["unit"]`, `["unit"]`, `["zone"]`, `["unit","*"]`, "oops"); text != "" {
		s.TopologyKeys = &text
	}
	h.cloud.SetService(s)
}

// another makes a Service over the pods of one that is there, or removes it.
func (h *history) another() {
	all := h.all()
	if len(all) == 0 {
		return
	}
	s := all[h.IntN(len(all))]
	s.Key.Name, s.Service = "another", "another"
	key := topology.ObjectKey{Namespace: s.Key.Namespace, Name: s.Service}
	if is, _ := h.cloud.Build().Services.Get(key); is != nil {
		h.cloud.DeleteService(key)
		h.cloud.DeleteSlice(s.Key)
		return
	}
	h.cloud.SetService(&topology.Service{Key: key})
	h.cloud.SetSlice(&s)
}

func (h *history) setSlice() {
	s := &topology.Slice{Key: h.key(fmt.Sprint("l", h.IntN(5))), Service: fmt.Sprint("s", h.IntN(3))}
	if port := h.IntN(5); port > 0 {
		s.Ports = []topology.SlicePort{{Protocol: topology.TCP, Port: uint16(80 + port%3)}}
	}
	for range h.IntN(4) {
		e := topology.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(h.IntN(6))}), Node: h.one("a-1", "a-1", "a-2", "a-2", "a-3", "b-1", "")}
		if !slices.ContainsFunc(s.Endpoints, func(o topology.Endpoint) bool { return o.Addr == e.Addr && o.Node == e.Node }) {
			h.judge(&e)
			s.Endpoints = append(s.Endpoints, e)
		}
	}
	h.cloud.SetSlice(s)
}

func (h *history) judge(e *topology.Endpoint) {
	e.Ready, e.Terminating = h.IntN(3) > 0, h.IntN(6) == 0
	e.Serving = e.Ready
}

// editSlice judges, or removes, one endpoint of one slice.
func (h *history) editSlice() {
	all := h.all()
	if len(all) == 0 {
		return
	}
	s := all[h.IntN(len(all))]
	s.Endpoints = slices.Clone(s.Endpoints)
	if len(s.Endpoints) == 0 {
		return
	}
	if i := h.IntN(len(s.Endpoints)); h.IntN(3) == 0 {
		s.Endpoints = slices.Delete(s.Endpoints, i, i+1)
	} else {
		h.judge(&s.Endpoints[i])
	}
	h.cloud.SetSlice(&s)
}

// heal begins a hold and its twin.
func (h *history) heal(booted bool) {
	s := Start{Base: h.inForce, Node: "a-1", Began: h.now, Booted: booted, Past: h.past}
	h.real, h.twin = New(s), newTwin(s)
}

// step lets something happen, and returns what that was.
func (h *history) step() string {
	what := h.IntN(12)
	if h.calm && h.IntN(3) == 0 {
		what = 0
	}
	switch what {
	case 0, 1, 2:
		h.past = h.real.Past(h.now).Interrupted()
		h.now = h.now.Add(time.Duration(h.IntN(100)) * time.Minute)
		if h.makes && h.IntN(2) == 0 {
			h.another()
		}
		h.changes(4)
		h.heal(false)
		return "an outage"
	case 3:
		return "a restart: " + h.restart()
	case 4:
		if h.calm && h.IntN(10) > 0 {
			break
		}
		node := h.one("a-1", "a-2", "a-3")
		h.real.Reported(node, h.now)
		h.twin.report(node, h.now)
		return node + " reports"
	}
	h.now = h.now.Add(time.Duration(h.IntN(int(Bound / 3))))
	h.changes(3)
	return "time passes"
}

// restart has a new process go on with what is on disk.
func (h *history) restart() string {
	data, err := json.Marshal(h.real.Past(h.now))
	if err != nil {
		return err.Error()
	}
	h.past = Past{}
	if err := json.Unmarshal(data, &h.past); err != nil {
		return err.Error()
	}
	if !reflect.DeepEqual(h.past, h.real.Past(h.now)) {
		return fmt.Sprintf("%+v is read as %+v", h.real.Past(h.now), h.past)
	}
	down := time.Duration(h.IntN(20)) * time.Second
	h.now, h.past = h.now.Add(down), h.past.After(down)
	b := topology.NewBuilder()
	for _, n := range h.inForce.Nodes.All() {
		b.SetNode(n)
	}
	for _, entry := range h.inForce.Services.All() {
		if entry.Service != nil {
			b.SetService(entry.Service)
		}
		for _, slice := range entry.Slices {
			b.SetSlice(slice)
		}
	}
	h.inForce = b.Build()
	h.heal(h.IntN(4) == 0)
	return "done"
}

// check compares the hold and its twin, and what both leave behind.
func (h *history) check() error {
	next := h.cloud.Build()
	got, held := h.real.Apply(next, h.now)
	want, nodes, wantHeld := h.twin.apply(next, h.now)
	if a := rows(got); !alike(a, want) {
		return fmt.Errorf("in force\n%v, the twin says\n%v", a, want)
	}
	var names []string
	for name := range got.Nodes.All() {
		names = append(names, name)
	}
	if !alike(names, nodes) {
		return fmt.Errorf("nodes %v, the twin says %v", names, nodes)
	}
	if !reflect.DeepEqual(held, wantHeld) {
		return fmt.Errorf("held %+v, the twin says %+v", held, wantHeld)
	}
	for _, s := range h.real.Past(h.now).Held {
		if since, ok := h.twin.since[s.Endpoint]; !ok || h.now.Sub(since) != s.For {
			return fmt.Errorf("%+v is left, the twin has it since %s", s, since)
		}
	}
	h.inForce = got
	return nil
}

// alike compares lists that are in no order.
func alike[T comparable](a, b []T) bool {
	count := map[T]int{}
	for _, o := range a {
		count[o]++
	}
	for _, o := range b {
		count[o]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

// Law: over histories with outages inside holds, restarts, boots, tenants,
// commands and addresses that others take, a hold says what its naive twin says.
func TestHistories(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(160) {
		h := newHistory(seed)
		steps := 40
		if h.calm {
			steps = 120
			h.word("", false)
		}
		for i := range steps {
			what := h.step()
			if err := h.check(); err != nil {
				t.Fatalf("seed %d, step %d, %s: %v", seed, i, what, err)
			}
			h.count(seen)
		}
	}
	for _, what := range []string{"held", "held by two outages", "held for long enough", "back", "commanded", "let go of a node", "held in two namespaces", "held for a new Service"} {
		if seen[what] < 5 {
			t.Errorf("%s: %d times, so this shows little", what, seen[what])
		}
	}
}

// count notes what a history has come across.
func (h *history) count(seen map[string]int) {
	spaces := map[string]bool{}
	for _, e := range h.twin.last {
		seen["held"]++
		spaces[e.Service.Namespace] = true
		if was, _ := h.twin.Base.Services.Get(e.Service); was == nil || was.Service == nil {
			seen["held for a new Service"]++
		}
		if h.twin.since[e].Before(h.twin.began) {
			seen["held by two outages"]++
		}
	}
	if len(spaces) > 1 {
		seen["held in two namespaces"]++
	}
	for e, since := range h.twin.since {
		if at, ok := h.twin.reported[e.Node]; ok && !h.now.Before(at.Add(Settle)) && h.now.Before(h.twin.began.Add(Bound)) && !since.After(at) {
			seen["let go of a node"]++
		}
	}
	for _, s := range h.past.Held {
		if s.For >= Longest {
			seen["held for long enough"]++
		}
	}
	seen["back"] += len(h.twin.back)
	for _, gone := range h.twin.gone {
		if gone {
			seen["commanded"]++
		}
	}
}
