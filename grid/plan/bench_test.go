package plan

import (
	"testing"
	"time"
)

// flapper has one grid, and one of the nodes that goes dark and is lit again, among
// as many units.
type flapper struct {
	*Index
	world World
	grid  Ref
}

func newFlapper(units int) *flapper {
	w := worldOfUnits(units)
	f := &flapper{indexOf(w), w, RefOf(w.Grids[0])}
	f.flap()
	return f
}

// plan plans the grid, and says how long that took.
func (f *flapper) plan() time.Duration {
	begun := time.Now()
	if p, ok := f.Plan(f.grid, DefaultGuard(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)); !ok || len(p.Steps) != len(f.world.Nodes) {
		panic("the plan has not a step for each unit")
	}
	return time.Since(begun)
}

func (f *flapper) flap() (took time.Duration) {
	for _, ready := range []string{"Unknown", "True"} {
		node := clone(f.world.Nodes[0])
		node["status"] = Object{"conditions": []any{Object{"type": "Ready", "status": ready}}}
		f.Set(node)
		took += f.plan()
	}
	return took
}

// What a flap takes of memory does not grow with the units that have no part in it.
// (The status of up to 200 units names each of them.)
func TestAFlapIsOfOneUnit(t *testing.T) {
	made := func(units int) float64 {
		f := newFlapper(units)
		return testing.AllocsPerRun(3, func() { f.flap() })
	}
	few, many := made(300), made(6000)
	t.Logf("%.0f allocations among 300 units, %.0f among 6,000", few, many)
	if many > 1.5*few {
		t.Error("that grows with the units")
	}
}

// BenchmarkFlap is what a node costs a grid that goes dark and is lit again,
// among 12,000 units: beside the same two plans with every unit looked at anew.
func BenchmarkFlap(b *testing.B) {
	f := newFlapper(12000)
	var flaps, anew time.Duration
	for b.Loop() {
		flaps += f.flap()
		for range 2 {
			clear(f.grids[f.grid].assessed)
			anew += f.plan()
		}
	}
	b.ReportMetric(float64(flaps.Milliseconds())/float64(2*b.N), "ms/plan")
	b.ReportMetric(float64(flaps)/float64(anew), "of-anew")
}
