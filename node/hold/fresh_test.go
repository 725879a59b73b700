package hold

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// A Service that was made during the outage over the pods of another agrees with
// that one, and with nobody else.
func TestAServiceThatWasMadeMeanwhile(t *testing.T) {
	const one, two = "a-1 10.0.0.1", "a-2 10.0.0.2"
	dark := func() world { return newWorld().service("web", one+" not", two+" not") }
	elsewhere := func(w world, s *topology.Slice, namespace string) world {
		service := topology.ObjectKey{Namespace: namespace, Name: s.Service}
		s.Key.Namespace = namespace
		w.b.SetService(&topology.Service{Key: service})
		w.b.SetSlice(s)
		return w
	}
	const webHeld, newDark = "web 10.0.0.1:8080 ready, web 10.0.0.2:8080 ready", "new 10.0.0.1:8080 not, new 10.0.0.2:8080 not"
	for name, tc := range map[string]struct {
		next world
		want string
	}{
		"the same pods":          {dark().service("new", one+" not", two+" not"), "new 10.0.0.1:8080 ready, new 10.0.0.2:8080 ready, " + webHeld},
		"they are to end":        {dark().service("new", one+" ending", two+" not"), "new 10.0.0.1:8080 ready, new 10.0.0.2:8080 ready, " + webHeld},
		"one of them is":         {newWorld().service("web", one, two+" not").service("new", one, two+" not"), "new 10.0.0.1:8080 ready, new 10.0.0.2:8080 ready, " + webHeld},
		"and pods of its own":    {dark().service("new", one+" not", "a-2 10.0.0.9 not"), "new 10.0.0.1:8080 ready, new 10.0.0.9:8080 not, " + webHeld},
		"in another unit":        {dark().service("new", "b-1 10.0.0.1 not", two+" not"), "new 10.0.0.1:8080 not, new 10.0.0.2:8080 ready, " + webHeld},
		"the old one's are gone": {newWorld().service("web").service("new", one+" not", two+" not"), newDark},
		"the old one is deleted": {newWorld().service("new", one+" not", two+" not"), newDark},
		"another port":           {elsewhere(dark(), slice("new", "new", 9090, one+" not"), "default"), "new 10.0.0.1:9090 not, " + webHeld},
		"no port":                {elsewhere(dark(), portless(slice("new", "new", 0, one+" not")), "default"), "new 10.0.0.1:0 not, " + webHeld},
		"another namespace":      {elsewhere(dark(), slice("new", "new", 8080, one+" not"), "other"), "new 10.0.0.1:8080 not, " + webHeld},
	} {
		base := newWorld().service("web", one, two)
		got, _ := begin(base.b.Build(), "a-1", healed).Apply(tc.next.b.Build(), healed)
		if text(got) != tc.want {
			t.Errorf("%s: %s\nwant %s", name, text(got), tc.want)
		}
	}
}

func portless(s *topology.Slice) *topology.Slice {
	s.Ports = nil
	return s
}

// What is ready whatever its pod says tells nothing of another Service.
func TestPublishedAddressesTellNothing(t *testing.T) {
	base := newWorld().service("published", "a-2 10.0.0.1")
	next := newWorld().service("published", "a-2 10.0.0.1").service("new", "a-2 10.0.0.1 not")
	if got, held := begin(base.b.Build(), "a-1", healed).Apply(next.b.Build(), healed); held.Endpoints != 0 {
		t.Errorf("held: %s", text(got))
	}
}

// What is held for a new Service ends when that does which it agrees with, and
// goes on where that is heard of first.
func TestANewServiceEndsWithTheOld(t *testing.T) {
	h := begin(newWorld().service("web", "a-1 10.0.0.1", "a-2 10.0.0.2").b.Build(), "a-1", healed)
	var last *topology.Entry
	at := func(d time.Duration, web, fresh string, want string) {
		t.Helper()
		got, _ := h.Apply(newWorld().service("web", "a-2 10.0.0.2"+web).service("new", "a-2 10.0.0.2"+fresh).b.Build(), healed.Add(d))
		last, _ = got.Services.Get(key("new"))
		if state := map[bool]string{true: "ready", false: "not"}[last.Slices[0].Endpoints[0].Ready]; state != want {
			t.Errorf("after %s: %s, want %s", d, state, want)
		}
	}
	at(0, " not", " not", "ready")
	at(time.Second, "", " not", "ready") // the slices of one pod come one after another
	at(2*time.Second, "", "", "ready")
	at(3*time.Second, "", " not", "not") // and that is news
	h = begin(newWorld().service("web", "a-1 10.0.0.1", "a-2 10.0.0.2").b.Build(), "a-1", healed)
	at(0, " not", " not", "ready")
	at(time.Second, "", " not", "ready")
	at(2*time.Second, " not", " not", "not") // its kubelet has spoken
	h = begin(newWorld().service("web", "a-1 10.0.0.1", "a-2 10.0.0.2").b.Build(), "a-1", healed)
	at(0, " not", " not", "ready")
	h.Reported("a-2", healed.Add(time.Second))
	at(time.Second+Settle-1, " not", " not", "ready")
	at(time.Second+Settle, " not", " not", "not")
}

// The past has a new Service, too: it is held for no longer than the old one,
// over however many outages.
func TestANewServiceHasThePastOfTheOld(t *testing.T) {
	o := verdict()
	o.heal()
	o.pass(time.Minute)
	o.next = newWorld().service("web", "a-1 10.0.0.1 not").service("new", "a-1 10.0.0.1 not").b.Build()
	o.pass(0)
	fresh := Endpoint{key("new"), onA1.Addr, onA1.Node}
	if i := slices.IndexFunc(o.past.Held, func(s Since) bool { return s.Endpoint == fresh }); i < 0 || o.past.Held[i].For != time.Minute {
		t.Errorf("left: %+v, want %v for a minute", o.past, fresh)
	}
	before, _ := o.base.Services.Get(key("new"))
	o.pass(time.Second)
	if after, _ := o.base.Services.Get(key("new")); after != before {
		t.Error("an entry that did not change is another one")
	}
}

// Who may write makes many Services over the same pods: of them no more is held
// than an Apply can bear, the same at each, and the old Service is held whole.
func TestNewServicesAreBounded(t *testing.T) {
	var pods, dark []string
	for i := range 100 {
		pods = append(pods, fmt.Sprintf("a-2 10.0.1.%d", i+1))
		dark = append(dark, pods[i]+" not")
	}
	next := newWorld().service("web", dark...)
	for i := range 150 {
		next.service(fmt.Sprintf("new-%03d", i), dark...)
	}
	h := begin(newWorld().service("web", pods...).b.Build(), "a-1", healed)
	snap := next.b.Build()
	first, held := h.Apply(snap, healed)
	if held.Endpoints != mostTold+len(pods) {
		t.Errorf("%d endpoints are held, want %d", held.Endpoints, mostTold+len(pods))
	}
	if again, _ := h.Apply(snap, healed.Add(time.Second)); text(again) != text(first) {
		t.Error("a second later others are held")
	}
}
