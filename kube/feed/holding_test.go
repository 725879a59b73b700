package feed

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/topology"
)

// Where a Service is, by its label: nowhere, ours, or another proxy's.
const (
	gone = iota
	ours
	theirs
)

// version is what became of one Service at one step of a cluster's history.
type version struct {
	name         string
	where, which int
}

// at is the Services of one place after n steps.
func at(history []version, n, where int) map[string]int {
	now := map[string]int{}
	for _, v := range history[:n] {
		delete(now, v.name)
		if v.where == where {
			now[v.name] = v.which
		}
	}
	return now
}

// teller is one watch: it has told n steps of the history, to a real store, and
// to its own record of that.
type teller struct {
	where int
	n     int
	add   func(name string, which int)
	drop  func(name string)
	list  func(map[string]int)
	has   map[string]int
	last  map[string]int // when it told of a name
}

func (w *teller) told(name string, which, clock int) {
	w.has[name], w.last[name] = which, clock
}

// step tells the next version, as a watch with a selector does.
func (w *teller) step(history []version, clock int) {
	v := history[w.n]
	w.n++
	_, had := w.has[v.name]
	switch {
	case v.where == w.where:
		w.told(v.name, v.which, clock)
		w.add(v.name, v.which)
	case had:
		delete(w.has, v.name)
		w.drop(v.name)
	}
}

// relist tells all there is after n steps.
func (w *teller) relist(history []version, n, clock int) {
	w.n, w.has = n, map[string]int{}
	for name, which := range at(history, n, w.where) {
		w.told(name, which, clock)
	}
	w.list(w.has)
}

// twin says, the long way, what is known of a name: what the watch that has it,
// and told of it last, says.
func twin(name string, watches []*teller) string {
	text, last := "nothing", -1
	for _, w := range watches {
		if which, has := w.has[name]; has && w.last[name] > last {
			text, last = fmt.Sprint(w.where, " ", which), w.last[name]
			if w.where == theirs {
				text = "theirs"
			}
		}
	}
	return text
}

// padding keeps lists from being doubted.
const padding = 20

func tellers(f *Feed) []*teller {
	both := &shared[*topology.Service]{}
	main := newStore(f, services{}, selected("services", "", "default/kubernetes", 0), both)
	other := newStore(f, foreign{}, selected("foreign-services", "", "", 0), both)
	service := func(name string, which int) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{ClusterIP: fmt.Sprintf("10.96.1.%d", which)}}
	}
	meta := func(name string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	}
	return []*teller{
		{
			where: ours, has: map[string]int{}, last: map[string]int{},
			add:  func(name string, which int) { _ = main.Add(service(name, which)) },
			drop: func(name string) { _ = main.Delete(service(name, 0)) },
			list: func(all map[string]int) {
				list := serviceList(padding)
				for name, which := range all {
					list = append(list, service(name, which))
				}
				_ = main.Replace(list, "1")
			},
		},
		{
			where: theirs, has: map[string]int{}, last: map[string]int{},
			add:  func(name string, _ int) { _ = other.Add(meta(name)) },
			drop: func(name string) { _ = other.Delete(meta(name)) },
			list: func(all map[string]int) {
				list := []any{}
				for i := range padding {
					list = append(list, meta(fmt.Sprintf("t%d", i)))
				}
				for name := range all {
					list = append(list, meta(name))
				}
				_ = other.Replace(list, "1")
			},
		},
	}
}

func known(f *Feed, name string) string {
	e, _ := f.builder.Build().Services.Get(topology.ObjectKey{Namespace: "default", Name: name})
	switch {
	case e == nil || e.Service == nil:
		return "nothing"
	case e.Service.Foreign:
		return "theirs"
	}
	return fmt.Sprint(ours, " ", e.Service.ClusterIPs[0].As4()[3])
}

// Law: two watches between which a label moves Services, in any order of their
// events, lists and reconnects, know what a naive twin knows; and the truth,
// once both have told all of it.
func TestTwoWatchesShareAnObject(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		f := New(&kube.Client{}, slog.New(slog.DiscardHandler), NewMetrics(prometheus.NewRegistry()))
		f.now = func() time.Time { return time.Unix(1000, 0) }
		watches, history, clock := tellers(f), []version{}, 0
		for _, w := range watches {
			w.relist(history, 0, clock)
		}
		check := func(what string) {
			t.Helper()
			for i := range 3 {
				if name := fmt.Sprint("n", i); known(f, name) != twin(name, watches) {
					t.Fatalf("%s: %s is known as %q, want %q; history %v", what, name, known(f, name), twin(name, watches), history)
				}
			}
		}
		for step := range 60 {
			clock++
			w := watches[r.IntN(2)]
			switch k := r.IntN(10); {
			case k < 4:
				history = append(history, version{fmt.Sprint("n", r.IntN(3)), r.IntN(3), 1 + step})
			case k < 9 && w.n < len(history):
				w.step(history, clock)
			case k == 9: // of a state that is not older than what was told
				w.relist(history, w.n+r.IntN(len(history)-w.n+1), clock)
			}
			check("on the way")
		}
		for _, w := range watches {
			for ; w.n < len(history); clock++ {
				w.step(history, clock)
			}
		}
		check("at the end")
		for i := range 3 {
			name, want := fmt.Sprint("n", i), "nothing"
			if which, ok := at(history, len(history), ours)[name]; ok {
				want = fmt.Sprint(ours, " ", which)
			} else if _, ok := at(history, len(history), theirs)[name]; ok {
				want = "theirs"
			}
			if got := known(f, name); got != want {
				t.Fatalf("at the end %s is known as %q, the truth is %q; history %v", name, got, want, history)
			}
		}
	}
}
