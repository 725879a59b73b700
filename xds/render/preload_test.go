package render

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

// twin chooses as preloader does, and orders all candidates for it.
type twin struct {
	max  int
	bids map[string]bid
	last map[string]int
}

func (w *twin) chosen() []string {
	var list []string
	always := 0
	for name, b := range w.bids {
		switch {
		case b.rank == topology.RankAlways:
			always += b.places
		case b.places > 1 && b.places > w.max/4:
			continue
		}
		list = append(list, name)
	}
	turn, behind, given := map[string]int{}, map[string]int{}, map[string]int{}
	part := func(name string) int {
		switch rank := w.bids[name].rank; {
		case rank == rankHeld:
			return 2
		case rank >= topology.RankShared:
			return 1
		}
		return 0
	}
	order := func(a, b string) int {
		return cmp.Or(cmp.Compare(part(a), part(b)), cmp.Compare(behind[a], behind[b]), cmp.Compare(w.bids[a].rank, w.bids[b].rank), cmp.Compare(turn[a], turn[b]),
			cmp.Compare(w.last[b], w.last[a]), cmp.Compare(a, b))
	}
	slices.SortFunc(list, order)
	for _, name := range list {
		b := w.bids[name]
		given[b.namespace] += b.places
		turn[name] = given[b.namespace]
		if b.rank != topology.RankAlways && turn[name] > (w.max+1)/2 {
			behind[name] = 1
		}
	}
	slices.SortFunc(list, order)
	taken := 0
	for i, name := range list {
		if taken += w.bids[name].places; taken > max(w.max, always) {
			list = list[:i]
			break
		}
	}
	slices.Sort(list)
	return list
}

// over is how many are not chosen that somebody needs.
func (w *twin) over(chosen []string) (n int) {
	for name, b := range w.bids {
		if b.rank != rankHeld && !slices.Contains(chosen, name) {
			n++
		}
	}
	return n
}

// The law: whatever candidates came, went, grew, changed their rank or were used,
// those are chosen that one who orders all of them chooses, and what choose
// returns leads there.
func TestPreloadedAreTheFirst(t *testing.T) {
	ranks := []topology.Rank{topology.RankAlways, 0, 1, 2, topology.RankUsed, rankHeld, topology.RankNone, topology.RankNone}
	namespaces := []string{"a", "a", "a", "b", "c"}
	for seed := range uint64(300) {
		dice := rand.New(rand.NewPCG(seed, 1))
		p := newPreloader(dice.IntN(8 + int(seed%3)*12))
		w := &twin{max: p.max, bids: map[string]bid{}, last: map[string]int{}}
		held := map[string]bool{}
		for step := range 60 {
			for range dice.IntN(4) {
				name := fmt.Sprint("c", dice.IntN(16))
				b := bid{namespaces[dice.IntN(len(namespaces))], ranks[dice.IntN(len(ranks))], 1}
				if seed%3 > 0 {
					b.places += dice.IntN(8)
				}
				if was, ok := w.bids[name]; ok && dice.IntN(2) == 0 {
					b.namespace, b.rank = was.namespace, was.rank
				}
				p.set(name, b)
				if w.bids[name] = b; b.rank == topology.RankNone {
					delete(w.bids, name)
				}
			}
			if dice.IntN(4) == 0 {
				var names []string
				w.last = map[string]int{}
				for i, n := range dice.Perm(16)[:dice.IntN(17)] {
					names = append(names, fmt.Sprint("c", n))
					w.last[names[i]] = i + 1
				}
				idle := dice.IntN(len(names) + 1)
				changed, _ := p.setUsed(names[:idle], names[idle:])
				for _, name := range changed {
					b, ok := w.bids[name]
					if !ok {
						b = noBid
					}
					p.set(name, b)
				}
			}
			added, gone := p.choose()
			for _, name := range added {
				if held[name] {
					t.Fatalf("seed %d, step %d: %s was added twice", seed, step, name)
				}
				held[name] = true
			}
			for _, name := range gone {
				if !held[name] {
					t.Fatalf("seed %d, step %d: %s went and was not there", seed, step, name)
				}
				delete(held, name)
			}
			got := make([]string, 0, len(held))
			for name := range held {
				got = append(got, name)
			}
			slices.Sort(got)
			want := w.chosen()
			if over := w.over(want); len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) || p.overCap() != over {
				t.Fatalf("seed %d, step %d: %v are preloaded and %d over the cap; want %v and %d", seed, step, got, p.overCap(), want, over)
			}
		}
	}
}

// A change of one of many candidates, far more than there is room for, costs
// what one of a few does.
func TestPreloadCostsWhatChanged(t *testing.T) {
	cost := func(candidates, namespaces int) uint64 {
		p := newPreloader(50)
		set := func(i int, rank topology.Rank) {
			p.set(fmt.Sprint("c", i), bid{fmt.Sprint("n", i%namespaces), rank, 1 + i%3})
		}
		for i := range candidates {
			set(i, 1)
		}
		p.choose()
		const rounds = 100
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range rounds {
			set(7, topology.RankNone)
			set(7, 1)
			set(9, topology.RankNone)
			p.choose()
			set(9, 1)
			p.choose()
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / rounds
	}
	for _, namespaces := range []int{1, 40, 20_000} {
		if few, many := cost(100, min(namespaces, 100)), cost(20_000, namespaces); many > 2*few+1024 {
			t.Errorf("a change among 20,000 candidates of %d namespaces allocates %d bytes, among 100 %d", namespaces, many, few)
		}
	}
}

// Who may write Services in one namespace does not take the room of those of
// another: each namespace has its turn, whatever its addresses are.
func TestOneNamespaceDoesNotTakeAllRoom(t *testing.T) {
	const room, theirs = 40, 15 // theirs come last by name
	w := newUDPWorld(room)
	ports := make([]uint16, 3*room)
	for i := range ports {
		ports[i] = uint16(i + 1)
	}
	for i := range byte(theirs) {
		w.service(named(fmt.Sprint("web-", i)), 200+i, `["unit"]`, topology.TCP, []uint16{80}, "a-1")
	}
	w.next()
	w.service(topology.ObjectKey{Namespace: "tenant", Name: "wide"}, 1, `["unit"]`, topology.TCP, ports, "a-1")
	cat, changed := w.next()
	for i := range byte(theirs) {
		if name := far(200 + i); !cat.Preloaded(name) || slices.Contains(changed[ClusterType], name) {
			t.Errorf("%s was preloaded before the tenant came, and is not, or was changed", name)
		}
	}
	if n := cat.PreloadedLen(); n != room {
		t.Errorf("%d are preloaded, there is room for %d", n, room)
	}
}

// Nor does who has nearer ones, nor with nearer and others: of what is near by a key half
// of the room is for who has fewer, be that in a later tier. What is near by none
// comes after all of it, and what nobody else needs one namespace may have.
func TestNearnessTakesNobodysRoom(t *testing.T) {
	const room = 40
	w := newUDPWorld(room)
	w.SetNode(&topology.Node{Name: "a-1", Labels: map[string]string{"unit": "a", "region": "r"}})
	w.SetNode(&topology.Node{Name: "a-2", Labels: map[string]string{"unit": "b", "region": "r"}})
	ports := make([]uint16, 3*room)
	for i := range ports {
		ports[i] = uint16(i + 1)
	}
	for i := range byte(10) { // the second tier, and no tier, but used
		w.service(topology.ObjectKey{Namespace: "shop", Name: fmt.Sprint("web-", i)}, 200+i, `["unit","region"]`, topology.TCP, []uint16{80}, "a-2")
		w.service(topology.ObjectKey{Namespace: "cloud", Name: fmt.Sprint("web-", i)}, 220+i, "", topology.TCP, []uint16{80}, "b-1")
	}
	var used []string
	for i := range byte(10) {
		used = append(used, far(220+i))
	}
	w.cats.Used(nil, used)
	wide := topology.ObjectKey{Namespace: "tenant", Name: "wide"}
	w.service(wide, 1, `["unit"]`, topology.TCP, ports, "a-1")
	w.service(topology.ObjectKey{Namespace: "tenant", Name: "region"}, 2, `["unit","region"]`, topology.TCP, ports, "a-2")
	cat, _ := w.next()
	for i := range byte(10) {
		if name := far(200 + i); !cat.Preloaded(name) {
			t.Errorf("%s is not preloaded, for one namespace has many nearer ones", name)
		}
		if name := far(220 + i); cat.Preloaded(name) {
			t.Errorf("%s, which is near by no key, has the place of one that is", name)
		}
	}
	theirs := 0
	for _, port := range ports {
		if cat.Preloaded(fmt.Sprintf("10.96.0.1:%d", port)) {
			theirs++
		}
	}
	if n := cat.PreloadedLen(); n != room || theirs != room-10 {
		t.Errorf("%d are preloaded, %d of the wide Service; want %d and 10 fewer", n, theirs, room)
	}
	for i := range byte(10) {
		w.DeleteService(topology.ObjectKey{Namespace: "shop", Name: fmt.Sprint("web-", i)})
	}
	cat, _ = w.next()
	if n := cat.PreloadedLen(); n != room {
		t.Errorf("%d are preloaded where nobody else needs the room, want %d", n, room)
	}
}

// BenchmarkPreload is a Service that comes and goes, near a node with 10,000.
func BenchmarkPreload(b *testing.B) {
	for _, namespaces := range []int{1, 100} {
		b.Run(fmt.Sprint(namespaces, " namespaces"), func(b *testing.B) {
			p := newPreloader(500)
			set := func(i int, rank topology.Rank) {
				p.set(fmt.Sprint("c", i), bid{fmt.Sprint("n", i%namespaces), rank, 1})
			}
			for i := range 10_000 {
				set(i, 1)
			}
			p.choose()
			for i := 0; b.Loop(); i++ {
				set(i%10_000, topology.RankNone)
				p.choose()
				set(i%10_000, 1)
				p.choose()
			}
		})
	}
}
