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
	return serviceStore{newStore(f, services{}, selected("services", "", "default/kubernetes", 0))}
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
		if got := s.judge.Held.Err; (got != nil) != held {
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
	if err := s.Replace(serviceList(1), "2"); err != nil || s.judge.Held.Err != nil {
		t.Error(err, s.judge.Held.Err)
	}
}

// An API server that forgot Services is not believed about slices; one that is
// replaced by a whole one is.
func TestOneListThatCannotBeHoldsTheOthers(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newServiceStore(&now)
	n := newStore(s.feed, nodes{}, selected("nodes", "", "", patience))
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
