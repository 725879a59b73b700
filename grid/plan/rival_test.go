package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/internal/testkit"
)

// rivals are all grids with a better claim to a name, by looking at each.
func rivals(x *Index, g *tracked, unit, name string) map[Ref]string {
	list := map[Ref]string{}
	for ref, h := range x.grids {
		its, ok := strings.CutPrefix(name, ref.Name+"-")
		if !ok || ref.Kind != g.ref.Kind || ref.Namespace != g.ref.Namespace || ref.Name >= g.ref.Name || h.deleting || !h.valid {
			continue
		}
		if its != unit && x.units.of(h.unitKey)[its] != nil && len(h.children[its]) == 0 {
			list[ref] = its
		}
	}
	return list
}

// The grid that has a better claim to a name is found without looking at all.
func TestRivalsAreFoundByName(t *testing.T) {
	found := 0
	for seed := range testkit.Histories(50) {
		c := newCluster(seed)
		for i := range 12 {
			labels := Object{"site": pick(c.r, []string{"b", "b-c", "b-c-d", "c", "c-d", "d"}), "room": pick(c.r, []string{"b-c", "c-d", "d"})}
			c.set(Object{"apiVersion": "v1", "kind": "Node", "metadata": Object{"name": fmt.Sprint("n", i), "labels": labels}})
		}
		for _, name := range []string{"a", "a-b", "a-b-c", "shop"} {
			for _, kind := range []string{"DeploymentGrid", "StatefulSetGrid", "ServiceGrid"} {
				if c.r.IntN(4) > 0 {
					c.setGrid(kind, name)
				}
			}
		}
		for _, ref := range c.x.Grids() {
			if p, ok := c.x.Plan(ref, testGuard, c.now); ok && c.r.IntN(4) == 0 {
				c.carryOut([]Plan{p})
			}
		}
		for _, g := range c.x.grids {
			for unit := range c.x.units.of(g.unitKey) {
				name := g.kind.name(g.ref.Name, unit)
				all := rivals(c.x, g, unit, name)
				rival, its, ok := c.x.rival(g, unit, name)
				if want, known := all[rival]; ok != (len(all) > 0) || ok && (!known || its != want) {
					t.Fatalf("seed %d: %s of %s: unit %q of %v, want one of %v", seed, name, g.ref, its, rival, all)
				}
				found += len(all)
			}
		}
	}
	if found < 5 {
		t.Errorf("%d names had a rival: the worlds are too tame", found)
	}
}
