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
	rank map[string]topology.Rank
	last map[string]int
}

func (w *twin) chosen() []string {
	var list []string
	for name := range w.rank {
		list = append(list, name)
	}
	slices.SortFunc(list, func(a, b string) int {
		return cmp.Or(cmp.Compare(w.rank[a], w.rank[b]), cmp.Compare(w.last[b], w.last[a]), cmp.Compare(a, b))
	})
	room := min(w.max, len(list))
	for room < len(list) && w.rank[list[room]] == topology.RankAlways {
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
	for seed := range uint64(200) {
		dice := rand.New(rand.NewPCG(seed, 1))
		p := newPreloader(dice.IntN(8))
		w := &twin{max: p.max, rank: map[string]topology.Rank{}, last: map[string]int{}}
		held := map[string]bool{}
		for step := range 60 {
			for range dice.IntN(4) {
				name := fmt.Sprint("c", dice.IntN(16))
				if rank := ranks[dice.IntN(len(ranks))]; rank == topology.RankNone {
					p.set(name, rank)
					delete(w.rank, name)
				} else {
					p.set(name, rank)
					w.rank[name] = rank
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
					rank, ok := w.rank[name]
					if !ok {
						rank = topology.RankNone
					}
					p.set(name, rank)
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
			if want := w.chosen(); len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) || p.overCap != len(w.rank)-len(want) {
				t.Fatalf("seed %d, step %d: %v are preloaded and %d over the cap; want %v and %d", seed, step, got, p.overCap, want, len(w.rank)-len(want))
			}
		}
	}
}

// A change of one of many candidates, far more than there is room for, costs
// what one of a few does.
func TestPreloadCostsWhatChanged(t *testing.T) {
	cost := func(candidates int) uint64 {
		p := newPreloader(50)
		for i := range candidates {
			p.set(fmt.Sprint("c", i), 1)
		}
		p.choose()
		const rounds = 100
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range rounds {
			p.set("c7", topology.RankNone)
			p.set("c7", 1)
			p.set("c9", topology.RankNone)
			p.choose()
			p.set("c9", 1)
			p.choose()
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / rounds
	}
	if few, many := cost(100), cost(20_000); many > 2*few+1024 {
		t.Errorf("a change among 20,000 candidates allocates %d bytes, among 100 %d", many, few)
	}
}
