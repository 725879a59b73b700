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
	max   int
	owner map[string]shareOwner
	last  map[string]int
}

func (w *twin) chosen() []string {
	var list []string
	for name := range w.owner {
		list = append(list, name)
	}
	turn, given := map[string]int{}, map[shareOwner]int{}
	order := func(a, b string) int {
		return cmp.Or(cmp.Compare(w.owner[a].rank, w.owner[b].rank), cmp.Compare(turn[a], turn[b]),
			cmp.Compare(w.last[b], w.last[a]), cmp.Compare(a, b))
	}
	slices.SortFunc(list, order)
	for _, name := range list {
		turn[name] = given[w.owner[name]]
		given[w.owner[name]]++
	}
	slices.SortFunc(list, order)
	room := min(w.max, len(list))
	for room < len(list) && w.owner[list[room]].rank == topology.RankAlways {
		room++
	}
	list = list[:room]
	slices.Sort(list)
	return list
}

// The law: whatever candidates came, went, changed their rank or were used,
// those are chosen that one who orders all of them chooses, and what choose
// returns leads there.
func TestPreloadedAreTheFirst(t *testing.T) {
	ranks := []topology.Rank{topology.RankAlways, 0, 1, 2, topology.RankUsed, topology.RankNone, topology.RankNone}
	namespaces := []string{"a", "a", "a", "b", "c"}
	for seed := range uint64(200) {
		dice := rand.New(rand.NewPCG(seed, 1))
		p := newPreloader(dice.IntN(8))
		w := &twin{max: p.max, owner: map[string]shareOwner{}, last: map[string]int{}}
		held := map[string]bool{}
		for step := range 60 {
			for range dice.IntN(4) {
				name := fmt.Sprint("c", dice.IntN(16))
				owner := shareOwner{ranks[dice.IntN(len(ranks))], namespaces[dice.IntN(len(namespaces))]}
				p.set(name, owner.namespace, owner.rank)
				if w.owner[name] = owner; owner.rank == topology.RankNone {
					delete(w.owner, name)
				}
			}
			if dice.IntN(4) == 0 {
				var names []string
				w.last = map[string]int{}
				for i, n := range dice.Perm(16)[:dice.IntN(17)] {
					names = append(names, fmt.Sprint("c", n))
					w.last[names[i]] = i + 1
				}
				changed, _ := p.setUsed(names)
				for _, name := range changed {
					owner, ok := w.owner[name]
					if !ok {
						owner.rank = topology.RankNone
					}
					p.set(name, owner.namespace, owner.rank)
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
			if want := w.chosen(); len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) || p.overCap != len(w.owner)-len(want) {
				t.Fatalf("seed %d, step %d: %v are preloaded and %d over the cap; want %v and %d", seed, step, got, p.overCap, want, len(w.owner)-len(want))
			}
		}
	}
}

// A change of one of many candidates, far more than there is room for, costs
// what one of a few does.
func TestPreloadCostsWhatChanged(t *testing.T) {
	cost := func(candidates, namespaces int) uint64 {
		p := newPreloader(50)
		set := func(i int, rank topology.Rank) { p.set(fmt.Sprint("c", i), fmt.Sprint("n", i%namespaces), rank) }
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

// BenchmarkPreload is a Service that comes and goes, near a node with 10,000.
func BenchmarkPreload(b *testing.B) {
	for _, namespaces := range []int{1, 100} {
		b.Run(fmt.Sprint(namespaces, " namespaces"), func(b *testing.B) {
			p := newPreloader(500)
			set := func(i int, rank topology.Rank) {
				p.set(fmt.Sprint("c", i), fmt.Sprint("n", i%namespaces), rank)
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
