package plan

import (
	"testing"
	"time"
)

// BenchmarkFlap is what a node costs a grid that goes dark and is lit again,
// among 12,000 units.
func BenchmarkFlap(b *testing.B) {
	w := worldOfUnits(12000)
	x := NewIndex()
	for _, list := range [][]Object{w.Nodes, w.Grids, w.Children} {
		for _, obj := range list {
			x.Set(obj)
		}
	}
	ref, now := RefOf(w.Grids[0]), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	flap := func(ready string) {
		node := clone(w.Nodes[0])
		node["status"] = Object{"conditions": []any{Object{"type": "Ready", "status": ready}}}
		x.Set(node)
		if p, ok := x.Plan(ref, DefaultGuard(), now); !ok || len(p.Steps) != 12000 {
			b.Fatalf("%d steps", len(p.Steps))
		}
	}
	flap("True")
	for b.Loop() {
		flap("Unknown")
		flap("True")
	}
}
