package plan

import (
	"fmt"
	"testing"
	"time"
)

// A node that is not ready for a moment has not left its unit: since when that is there
// stays known, and so the time that a new one waits.
func TestAFlapMakesNoUnitNew(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	grid := worldOfUnits(0).Grids[0]
	x, ref, guard := NewIndex(), RefOf(grid), Guard{Grace: 5 * time.Minute, Share: 0.1, Since: now}
	node := func(i int, ready string) {
		unit := fmt.Sprintf("u-%02d", i)
		x.Set(Object{"kind": "Node", "metadata": Object{"name": unit, "labels": Object{"site": unit}}, "status": Object{"conditions": []any{Object{"type": "Ready", "status": ready}}}})
	}
	made := func() (n int) {
		p, _ := x.Plan(ref, guard, now)
		for _, s := range p.Steps {
			if s.Action == Create {
				n++
			}
		}
		return n
	}
	x.Set(grid)
	node(0, "True")
	made()
	now = now.Add(time.Minute)
	for i := range 20 {
		node(i, "True")
	}
	if n := made(); n != 11 {
		t.Fatalf("at once %d children are made", n)
	}
	for second := range 30 {
		now = now.Add(time.Second)
		node(19, []string{"Unknown", "True"}[second%2])
		if n := made(); second < 29 && n != 11 {
			t.Fatalf("after %d s %d children are made", second+1, n)
		}
	}
	if n := made(); n != 20 {
		t.Errorf("after 30 s %d children are made, want all", n)
	}
}
