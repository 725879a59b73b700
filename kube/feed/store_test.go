package feed

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/topology"
)

// serviceList makes a list of n Services, default/kubernetes first.
func serviceList(n int) []any {
	list := make([]any, 0, n)
	for i := range n {
		name := fmt.Sprintf("s%03d", i)
		if i == 0 {
			name = "kubernetes"
		}
		list = append(list, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.1"}})
	}
	return list
}

type serviceStore struct {
	*store[*corev1.Service, *topology.Service]
}

func newServiceStore(now *time.Time) serviceStore {
	f := New(&kube.Client{}, slog.New(slog.DiscardHandler), NewMetrics(prometheus.NewRegistry()))
	f.now = func() time.Time { return *now }
	return serviceStore{newStore(f, services{}, selection{name: "services", anchor: "default/kubernetes"})}
}

func (s serviceStore) count() int {
	n := 0
	for range s.feed.builder.Build().Services.All() {
		n++
	}
	return n
}

func TestListsAreNotBelievedBlindly(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newServiceStore(&now)
	step := func(what string, list []any, after time.Duration, held bool, left int) {
		t.Helper()
		now = now.Add(after)
		if err := s.Replace(list, "1"); err != nil {
			t.Errorf("%s: %v", what, err) // or the reflector begins anew at once
		}
		if got := s.judge.held.err; (got != nil) != held {
			t.Errorf("%s: %v, held should be %v", what, got, held)
		}
		if got := s.count(); got != left {
			t.Errorf("%s: %d Services, want %d", what, got, left)
		}
	}
	step("the first list", serviceList(100), 0, false, 100)
	step("an empty one", nil, time.Second, true, 100)
	step("one without default/kubernetes", serviceList(100)[1:], time.Second, true, 100)
	step("one that drops a third", serviceList(67), time.Second, false, 67)
	step("one that drops more than half", serviceList(20), time.Second, true, 67)
	step("the same, too early", serviceList(20), 9*time.Second, true, 67)
	step("another one, which does not agree", serviceList(5), 2*time.Second, true, 67)
	step("that one again, too early", serviceList(5), 9*time.Second, true, 67)
	step("a whole one in between", serviceList(67), time.Second, false, 67)
	step("the small one again", serviceList(5), time.Second, true, 67)
	step("and after 10 s once more", serviceList(5), 10*time.Second, false, 5)
	step("none, and so for an hour", nil, time.Second, true, 5)
	step("none, an hour later", nil, time.Hour, true, 5)
}

func TestWatchDeletesAreBelievedAtOnce(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newServiceStore(&now)
	list := serviceList(10)
	if err := s.Replace(list, "1"); err != nil {
		t.Fatal(err)
	}
	for _, obj := range list[1:] {
		if err := s.Delete(obj); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.count(); got != 1 {
		t.Errorf("%d Services left, want 1", got)
	}
	// A list that says the same has nothing left to doubt.
	if err := s.Replace(serviceList(1), "2"); err != nil || s.judge.held.err != nil {
		t.Error(err, s.judge.held.err)
	}
}

// What no API server can say is never believed; what is only unlikely is, once
// it has been said for long enough; and nothing of it while something else that
// the same API server says cannot be.
func TestHowLongAListMustStand(t *testing.T) {
	const always = 365 * 24 * time.Hour
	sure := selection{name: "services", anchor: "default/kubernetes"}
	slices := selection{name: "endpointslices", anchor: "default/kubernetes", patience: patience}
	nodes := selection{name: "nodes", patience: patience}
	list := func(before, after int, anchored, alone bool) listed {
		l := listed{before: before, after: after, recent: before, kept: min(before, after), anchored: anchored, alone: alone, takes: map[topology.ObjectKey]int{}}
		if after < before {
			l.takes[topology.ObjectKey{Name: "x"}] = before - after
		}
		return l
	}
	for name, tc := range map[string]struct {
		of    selection
		list  listed
		after time.Duration // when it is believed
	}{
		"whole":                        {sure, list(9, 9, true, true), 0},
		"without what all have":        {sure, list(9, 9, false, true), always},
		"the same, at first":           {sure, list(0, 9, false, true), always},
		"no endpoints of the API":      {slices, list(9, 9, false, true), patience},
		"the same, at first ":          {slices, list(0, 9, false, true), patience},
		"no nodes":                     {nodes, list(9, 0, false, true), patience},
		"no nodes, at first":           {nodes, list(0, 0, false, true), 0},
		"few nodes":                    {nodes, list(9, 2, false, true), confirm},
		"few nodes, and no Services":   {nodes, list(9, 2, false, false), always},
		"whole, and no Services":       {nodes, list(9, 9, false, false), 0},
		"few of what may be few":       {selection{name: "grid-endpointslices"}, list(9, 0, false, true), confirm},
		"a grid's, while no Services ": {selection{name: "grid-endpointslices"}, list(9, 0, false, false), always},
	} {
		t.Run(name, func(t *testing.T) {
			j, begin := judge{selection: tc.of, lost: memory{}}, time.Unix(1000, 0)
			for _, at := range []time.Duration{0, confirm - 1, confirm, patience - 1, patience, always - 1} {
				if got, want := j.believe(tc.list, begin.Add(at)), at >= tc.after; got != want {
					t.Fatalf("after %s: believed %v, want %v (%v)", at, got, want, j.held.err)
				} else if got {
					return
				}
				if next := j.next(begin.Add(at), firstLook); next <= 0 || next > furthestLook {
					t.Errorf("after %s it is looked at again in %s", at, next)
				}
			}
		})
	}
}

// An API server that forgot Services is not believed about slices; one that is
// replaced by a whole one is.
func TestOneListThatCannotBeHoldsTheOthers(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newServiceStore(&now)
	n := newStore(s.feed, nodes{}, selection{name: "nodes", patience: patience})
	node := func(name string) any { return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	list := func(services, nodes []any, wantServices, wantNodes int) {
		t.Helper()
		now = now.Add(2 * patience)
		for _, err := range []error{s.Replace(services, "1"), n.Replace(nodes, "1")} {
			if err != nil {
				t.Error(err)
			}
		}
		if got := s.feed.builder.Build().Nodes.Len(); got != wantNodes || s.count() != wantServices {
			t.Errorf("%d nodes and %d Services, want %d and %d", got, s.count(), wantNodes, wantServices)
		}
	}
	list(serviceList(3), []any{node("a"), node("b"), node("c")}, 3, 3)
	for range 3 {
		list(nil, nil, 3, 3)
	}
	list(serviceList(3), nil, 3, 0) // that has stood long enough
	list(serviceList(3), []any{node("a")}, 3, 1)
}

func TestNothingIsPublishedForAnUnchangedList(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newServiceStore(&now)
	if err := s.Replace(serviceList(10), "1"); err != nil {
		t.Fatal(err)
	}
	<-s.feed.dirty
	if err := s.Replace(serviceList(10), "0"); err != nil { // a resourceVersion that went backwards
		t.Fatal(err)
	}
	select {
	case <-s.feed.dirty:
		t.Error("a list of the same content woke the publisher")
	default:
	}
}
