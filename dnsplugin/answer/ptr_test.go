package answer

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

func (p *ptr) depth() int {
	if p == nil {
		return 0
	}
	return 1 + max(p.less.depth(), p.more.depth())
}

// Records are what was put in and not taken out, in order, whatever came first; and
// older versions stay as they were.
func TestRecordsOfAnAddress(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var tree, older *ptr
		var olderHas []record
		twin := map[record]bool{}
		for range 300 {
			r := record{fmt.Sprintf("s%d.default", rnd.IntN(10)), []string{"", "db-0", "db-1"}[rnd.IntN(3)]}
			if rnd.IntN(2) == 0 {
				tree, twin[r] = tree.with(r), true
			} else {
				tree = tree.without(r)
				delete(twin, r)
			}
			want := slices.SortedFunc(maps.Keys(twin), record.compare)
			if got := slices.Collect(tree.all()); !slices.Equal(got, want) {
				t.Fatalf("%v, want %v", got, want)
			}
			if got := slices.Collect(older.all()); !slices.Equal(got, olderHas) {
				t.Fatalf("an older version is %v, and was %v", got, olderHas)
			}
			if rnd.IntN(20) == 0 {
				older, olderHas = tree, want
			}
		}
		var anew *ptr
		for r := range twin { // in any order
			anew = anew.with(r)
		}
		if !reflect.DeepEqual(tree, anew) {
			t.Fatal("how a tree looks depends on how it came about")
		}
	}
}

// Thousands of Services may have one pod: a change of one of them makes no list of
// the others anew.
func TestAChangeAtAnAddressOfMany(t *testing.T) {
	const services = 5000
	x, ip := many(services)
	const name = "db7.shop"
	svc, _ := x.services.Get(name)
	e := x.ptr.Edit()
	made := testing.AllocsPerRun(100, func() {
		x.setPTR(e, name, svc, false)
		x.setPTR(e, name, svc, true)
	})
	if made > 300 {
		t.Errorf("a change at an address of %d names made %v things", services, made)
	}
	tree, _ := x.ptr.Get(ip)
	if depth := tree.depth(); depth > 60 {
		t.Errorf("%d names are %d deep", services, depth)
	}
}

// BenchmarkNamesOfAnAddress is a change of one Service of those that have one pod.
func BenchmarkNamesOfAnAddress(b *testing.B) {
	for _, services := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(services), func(b *testing.B) {
			x, _ := many(services)
			svc, _ := x.services.Get("db0.shop")
			e := x.ptr.Edit()
			b.ReportAllocs()
			for b.Loop() {
				x.setPTR(e, "db0.shop", svc, false)
				x.setPTR(e, "db0.shop", svc, true)
			}
		})
	}
}
