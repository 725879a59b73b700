package topology_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	. "github.com/gridmesh/gridmesh/topology"
)

// served counts the pairs of load balancers that are served, of so many, and fails where one
// is open to everybody.
func served(t *testing.T, view *View, s *Service) (n, of int) {
	t.Helper()
	sv, _ := view.Service(s.Key)
	for _, o := range sv.Outside {
		if o.Kind == LoadBalancer {
			n++
			if len(o.Sources) == 0 {
				t.Errorf("%s: %s is open to everybody", s.Key, o.Frontend)
			}
		}
	}
	return n, len(s.Ports) * len(s.Exposure.LoadBalancers)
}

// A few namespaces that want more than there is take nothing from those that ask for little,
// though their Services are elder.
func TestGreedyNamespacesTakeNothingFromOthers(t *testing.T) {
	b, viewer := NewBuilder(), NewViewer("a1", Options{Datapath: DatapathKernel})
	viewer.BoundRanges(8192)
	var greedy, modest []*Service
	for i := range 36 {
		b.SetService(guardedService(fmt.Sprint("greedy-", i/9), i, 1, 1))
	}
	for i := range 50 {
		modest = append(modest, guardedService(fmt.Sprint("modest-", i), 40+i, 2, 20))
		b.SetService(modest[i])
	}
	viewer.See(b.Build())
	for i := range 36 { // they are changed, and remain the eldest
		greedy = append(greedy, guardedService(fmt.Sprint("greedy-", i/9), i, 1, 1000))
		b.SetService(greedy[i])
	}
	view := viewer.See(b.Build())
	for _, s := range modest {
		if n, of := served(t, view, s); n != of {
			t.Errorf("%s has %d of %d pairs", s.Key, n, of)
		}
	}
	has := map[string]int{}
	for _, s := range greedy {
		n, _ := served(t, view, s)
		has[s.Key.Namespace] += n
	}
	// 1400 are others', and of what is left six lists find room.
	if want := map[string]int{"greedy-0": 2, "greedy-1": 2, "greedy-2": 1, "greedy-3": 1}; !maps.Equal(has, want) {
		t.Errorf("%v are served, want %v", has, want)
	}
}

// Where nobody else wants it, a namespace has all the room that there is.
func TestANamespaceGrowsIntoWhatNobodyWants(t *testing.T) {
	b := NewBuilder()
	var list []*Service
	for i := range 90 {
		list = append(list, guardedService("shop", i, 2, 40))
		b.SetService(list[i])
	}
	viewer := NewViewer("a1", Options{Datapath: DatapathKernel})
	viewer.BoundRanges(90 * (40 + OfList))
	view := viewer.See(b.Build())
	for _, s := range list {
		if n, of := served(t, view, s); n != of {
			t.Errorf("%s has %d of %d pairs", s.Key, n, of)
		}
	}
}

// Room that has none for a whole list is somebody else's, and pairs that are another's, or a
// ClusterIP, need none.
func TestRoomIsOfWholeListsOfTheServicesOwn(t *testing.T) {
	b, want := NewBuilder(), map[*Service]int{}
	set := func(s *Service, n int) *Service {
		s.Exposure.ExternalIPs = nil
		b.SetService(s)
		want[s] = n
		return s
	}
	for i := range 8 {
		set(guardedService(fmt.Sprint("large-", i), i, 1, 1000), 1) // 8064 together
	}
	first := guardedService("large-0", 0, 1, 1000)
	late, later := set(guardedService("shop", 20, 1, 20), 1), set(guardedService("shop", 21, 1, 20), 1)
	gap := guardedService("shop", 10, 1, 1000) // more than is left
	gap.Ports[0].Port = first.Ports[0].Port
	gap.Exposure.LoadBalancers = append(gap.Exposure.LoadBalancers, first.Exposure.LoadBalancers[0])
	set(gap, 0)
	foreign := guardedService("shop", 11, 1, 100)
	foreign.Ports[0].Port = first.Ports[0].Port
	foreign.Exposure.LoadBalancers = []netip.Addr{first.Exposure.LoadBalancers[0], late.ClusterIPs[0]}
	set(foreign, 0)
	viewer := NewViewer("a1", Options{Datapath: DatapathKernel})
	viewer.BoundRanges(8064 + 2*28)
	view := viewer.See(b.Build())
	for s, n := range want {
		if got, _ := served(t, view, s); got != n {
			t.Errorf("%s has %d pairs, want %d", s.Key, got, n)
		}
	}
	for s, want := range map[*Service][]string{
		late: nil, later: nil,
		gap:     {"belongs to service large-0/", "takes 1008 entries of every node", "1 pairs of a port and an address are served to nobody"},
		foreign: {"belongs to service large-0/", "is a ClusterIP of service shop/"},
	} {
		sv, _ := view.Service(s.Key)
		said := fmt.Sprint(sv.Problems)
		for _, text := range want {
			if !strings.Contains(said, text) {
				t.Errorf("%s: %s, want %q", s.Key, said, text)
			}
		}
		if len(sv.Problems) != min(len(want), 2) {
			t.Errorf("%s: %s", s.Key, said)
		}
	}
}

// The law of the viewer, and the twin's word, where ranges of several namespaces, Services and
// families want more than there is, and addresses change hands; and that nobody who asks for
// no more than an equal part goes without, and no room is left that somebody lacks.
func TestTurnsAreIncremental(t *testing.T) {
	short := 0
	for seed := range uint64(15) {
		r := rand.New(rand.NewPCG(seed, 4))
		opts, bound, b := Options{Datapath: DatapathKernel}, 20+r.IntN(130), NewBuilder()
		viewer := func() *Viewer {
			v := NewViewer("n0", opts)
			v.Bound(5, 9)
			v.BoundRanges(bound)
			return v
		}
		kept := viewer()
		for step := range 60 {
			for range 1 + r.IntN(2) {
				if key := (ObjectKey{fmt.Sprint(r.IntN(4)), fmt.Sprint(r.IntN(5))}); r.IntN(5) == 0 {
					b.DeleteService(key)
				} else {
					b.SetService(randomGuarded(r, key))
				}
			}
			snap := b.Build()
			got, want := kept.See(snap), viewer().See(snap)
			at := fmt.Sprintf("seed %d step %d", seed, step)
			if !reflect.DeepEqual(got.Sorted(), want.Sorted()) {
				t.Fatalf("%s: the kept view differs from a new one", at)
			}
			checkAgainstTwin(t, snap, got, kept, opts, at)
			if checkFair(t, snap, kept, got, bound, at) {
				short++
			}
		}
	}
	if t.Logf("%d of 900 snapshots lack room", short); short < 300 || short > 800 {
		t.Error("that tells too little")
	}
}

// randomGuarded has few addresses, so that Services quarrel, and ranges of none, one or both families.
func randomGuarded(r *rand.Rand, key ObjectKey) *Service {
	four, six := netip.MustParseAddr(fmt.Sprint("10.96.0.", r.IntN(9))), netip.MustParseAddr(fmt.Sprint("fd00::", r.IntN(9)))
	s := &Service{Key: key, Created: int64(r.IntN(4)), ClusterIPs: [][]netip.Addr{{four}, {four, six}, {six, four}}[r.IntN(3)], Exposure: &Exposure{}}
	for range 1 + r.IntN(3) {
		s.Ports = append(s.Ports, ServicePort{Name: fmt.Sprint(len(s.Ports)), Protocol: TCP, Port: uint16(80 + r.IntN(3))})
	}
	for range r.IntN(4) {
		s.Exposure.LoadBalancers = append(s.Exposure.LoadBalancers, netip.MustParseAddr(fmt.Sprint([]string{"192.0.2.", "2001:db8::", "10.96.0."}[r.IntN(3)], r.IntN(9))))
	}
	if r.IntN(3) == 0 {
		s.Exposure.ExternalIPs = append(s.Exposure.ExternalIPs, netip.MustParseAddr(fmt.Sprint("192.0.2.", r.IntN(9))))
	}
	for i := range r.IntN(4) * r.IntN(12) {
		s.Exposure.Sources = append(s.Exposure.Sources, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), 16))
	}
	for i := range r.IntN(3) {
		s.Exposure.Sources = append(s.Exposure.Sources, netip.MustParsePrefix(fmt.Sprintf("fd0%d::/16", i)))
	}
	return s
}

// checkFair reports whether anybody lacks room.
func checkFair(t *testing.T, snap *Snapshot, viewer *Viewer, view *View, bound int, at string) (short bool) {
	t.Helper()
	all, had, wants, least := claimed(snap, viewer), map[string]int{}, map[string]int{}, bound+1
	for s, lack := range unguarded(all, viewer) {
		lacks, has := map[bool]int{}, map[bool]int{} // by whether they are of IPv6
		for to := range lack {
			lacks[to.Addr.Is6()] = entries(s, claim{Frontend: to, kind: LoadBalancer})
		}
		sv, _ := view.Service(s.Key)
		for _, o := range sv.Outside {
			has[o.Addr.Is6()] = max(has[o.Addr.Is6()], entries(s, claim{Frontend: o.Frontend, kind: o.Kind}))
		}
		for _, n := range lacks {
			wants[s.Key.Namespace] += n
			least, short = min(least, n), true
		}
		for _, n := range has {
			had[s.Key.Namespace] += n
			wants[s.Key.Namespace] += n
		}
	}
	sum := 0
	for namespace, want := range wants {
		sum += had[namespace]
		equal := 0
		for _, other := range wants {
			equal += min(other, want)
		}
		if equal <= bound && had[namespace] < want {
			t.Fatalf("%s: namespace %s has %d of %d, of %d: %v", at, namespace, had[namespace], want, bound, wants)
		}
	}
	if sum > bound || short && least <= bound-sum {
		t.Fatalf("%s: %d of %d are taken, and %d would fit", at, sum, bound, least)
	}
	return short
}
