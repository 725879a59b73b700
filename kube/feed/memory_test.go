package feed

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/internal/lists"
	"github.com/gridmesh/gridmesh/topology"
)

// Lists that take less than half each are believed until they have taken half
// together, however fast or slowly they come; then one has to stand.
func TestListsThatTakeALittleEach(t *testing.T) {
	for name, tc := range map[string]struct {
		next  func(n int) int
		every time.Duration
	}{
		"halves within two seconds": {func(n int) int { return (n + 1) / 2 }, 200 * time.Millisecond},
		"halves within a minute":    {func(n int) int { return (n + 1) / 2 }, 6 * time.Second},
		"one after the other":       {func(n int) int { return n - 1 }, 400 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Unix(1000, 0)
			now := begin
			s := newServiceStore(&now)
			for n := 128; n > 1 && now.Sub(begin) < lists.Span-tc.every; n = tc.next(n) {
				if err := s.Replace(serviceList(n), "1"); err != nil {
					t.Fatal(err)
				}
				now = now.Add(tc.every)
			}
			if got := s.count(); got != 64 || s.judge.Held.Err == nil {
				t.Errorf("%d of 128 Services are left after %s, held is %v", got, now.Sub(begin), s.judge.Held.Err)
			}
			// The last of them is what an operator wanted: it stands.
			for _, after := range []time.Duration{0, lists.Confirm} {
				now = now.Add(after)
				if err := s.Replace(serviceList(2), "1"); err != nil {
					t.Fatal(err)
				}
			}
			if got := s.count(); got != 2 {
				t.Errorf("%d Services are left after a list that stood, want 2", got)
			}
			// From then on that is what others are held against.
			if err := s.Replace(serviceList(1), "1"); err != nil || s.judge.Held.Err != nil {
				t.Error(err, s.judge.Held.Err)
			}
		})
	}
}

// What lists took away is remembered for a minute, and not until the next list,
// which may never come: bookmarks end it.
func TestMemoryEndsWithoutAnotherList(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newServiceStore(&now)
	for _, n := range []int{200, 150} {
		if err := s.Replace(serviceList(n), "1"); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		after time.Duration
		want  int
	}{{0, 50}, {lists.Span - time.Second, 50}, {time.Second, 0}} {
		now = now.Add(tc.after)
		s.UpdateResourceVersion("2")
		if got := len(s.judge.Lost); got != tc.want {
			t.Errorf("%s after a list took 50, %d are remembered, want %d", now.Sub(time.Unix(1000, 0)), got, tc.want)
		}
	}
}

// A list that has as many objects as are known, and others, takes all of them.
func TestAListOfAnotherClusterIsHeld(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newServiceStore(&now)
	all := serviceList(200)
	for _, list := range [][]any{all[:100], append(serviceList(1), all[101:]...)} {
		if err := s.Replace(list, "1"); err != nil {
			t.Fatal(err)
		}
	}
	if s.judge.Held.Err == nil {
		t.Error("a list of 99 other Services is believed")
	}
}

// told is one step of what a watch said of one object: an event, or a list that
// was believed and took of it.
type told struct {
	at      time.Time
	event   bool
	name    string
	had     int  // weight before
	settles bool // a list that stood: nothing before it counts
}

// believer says, the long way, which lists are believed.
type believer struct {
	known   map[string]int
	history []told
	since   time.Time // of the lists that are held; zero for none
	total   int
}

// recent is what is known of a name, or was before lists took of it, one within
// a minute of the next.
func (b *believer) recent(name string, now time.Time) int {
	weight, until := b.known[name], now
	for i := len(b.history) - 1; i >= 0; i-- {
		s := b.history[i]
		switch {
		case s.settles:
			return weight
		case s.name != name:
			continue
		case s.event || until.Sub(s.at) >= lists.Span:
			return weight
		}
		weight, until = max(weight, s.had), s.at
	}
	return weight
}

func (b *believer) event(name string, weight int, now time.Time) {
	b.history = append(b.history, told{at: now, event: true, name: name})
	if b.known[name] = weight; weight == 0 {
		delete(b.known, name)
	}
}

func (b *believer) list(list map[string]int, now time.Time) {
	names := maps.Clone(b.known)
	for _, s := range b.history {
		names[s.name] = 0
	}
	recent, kept, total, takes := 0, 0, 0, false
	for name := range names {
		weight := b.recent(name, now)
		recent, kept, takes = recent+weight, kept+min(weight, list[name]), takes || list[name] < b.known[name]
	}
	for _, weight := range list {
		total += weight
	}
	if doubtful := takes && kept < recent-kept; doubtful {
		if b.since.IsZero() || 10*(max(total, b.total)-min(total, b.total)) > max(total, b.total) {
			b.since, b.total = now, total
		}
		if now.Sub(b.since) < lists.Confirm {
			return
		}
		b.history = append(b.history, told{settles: true})
	} else {
		for name, had := range b.known {
			if list[name] < had {
				b.history = append(b.history, told{at: now, name: name, had: had})
			}
		}
	}
	b.known, b.since = maps.Clone(list), time.Time{}
}

// weights are slices by the number of their endpoints.
func weights(f *Feed) map[string]int {
	all := map[string]int{}
	for key, e := range f.builder.Build().Services.All() {
		for _, s := range e.Slices {
			all[key.Name] += len(s.Endpoints)
		}
	}
	return all
}

func sliceOf(name string, endpoints int) *discoveryv1.EndpointSlice {
	port := int32(80)
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: &port}},
	}
	for i := range endpoints {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.1.0.%d", i+1)}})
	}
	return s
}

// Law: over random events and lists at random times, what is known is what a
// naive twin believes.
func TestWhatIsBelievedIsATwins(t *testing.T) {
	heldLists, stood := 0, 0
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 3))
		f := New(&kube.Client{}, slog.New(slog.DiscardHandler), NewMetrics(prometheus.NewRegistry()))
		now := time.Unix(1000, 0)
		f.now = func() time.Time { return now }
		s := newStore(f, slices{}, selected("endpointslices", "", "", 0))
		twin := &believer{known: map[string]int{}}
		truth, names := map[string]int{}, []string{"a", "b", "c", "d", "e", "f"}
		for _, name := range names {
			truth[name] = 1 + r.IntN(9)
		}
		for step := range 60 {
			now = now.Add([]time.Duration{0, 100 * time.Millisecond, 3 * time.Second, 11 * time.Second, 50 * time.Second}[r.IntN(5)])
			if r.IntN(2) == 0 {
				s.UpdateResourceVersion("1") // a bookmark changes nothing
			}
			name := names[r.IntN(len(names))]
			switch r.IntN(6) {
			case 0: // an event
				weight := r.IntN(9)
				if weight == 0 {
					_ = s.Delete(sliceOf(name, 0))
				} else {
					_ = s.Add(sliceOf(name, weight))
				}
				twin.event(name, weight, now)
				truth = maps.Clone(twin.known)
				continue
			case 1: // the truth erodes, or grows
				truth[name] = r.IntN(9)
			case 2:
				truth[name] /= 2
			}
			list, sent := map[string]int{}, []any{}
			for name, weight := range truth {
				if weight > 0 {
					list[name] = weight
					sent = append(sent, sliceOf(name, weight))
				}
			}
			was := s.judge.Held.Err
			if err := s.Replace(sent, "1"); err != nil {
				t.Fatal(err)
			}
			twin.list(list, now)
			if s.judge.Held.Err != nil {
				heldLists++
			} else if was != nil && len(s.judge.Lost) == 0 {
				stood++
			}
			if got := weights(f); !reflect.DeepEqual(got, twin.known) {
				t.Fatalf("seed %d, step %d: known is %v, the twin's is %v; the list was %v", seed, step, got, twin.known, list)
			}
		}
	}
	if heldLists < 50 || stood < 8 {
		t.Errorf("%d lists were held and %d stood: the histories are too tame", heldLists, stood)
	}
}

// What an operator deletes is followed at once where the watch tells of it, and
// up to half of it where a list does.
func TestAMassDeletionIsFollowed(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newServiceStore(&now)
	list := serviceList(101)
	if err := s.Replace(list, "1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Replace(list[:51], "1"); err != nil || s.count() != 51 {
		t.Errorf("half by a list: %v, %d are left", err, s.count())
	}
	for _, obj := range list[11:51] {
		if err := s.Delete(obj); err != nil {
			t.Fatal(err)
		}
	}
	if s.count() != 11 {
		t.Errorf("by the watch: %d are left", s.count())
	}
	now = now.Add(lists.Span) // and a minute later half of what is left, by a list
	if err := s.Replace(list[:6], "1"); err != nil || s.count() != 6 {
		t.Errorf("a minute later: %v, %d are left", err, s.count())
	}
	if _, there := s.feed.builder.Build().Services.Get(topology.ObjectKey{Namespace: "default", Name: "kubernetes"}); !there {
		t.Error("the API server's Service is gone")
	}
}
