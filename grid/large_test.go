package grid_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/grid/gridtest"
	"github.com/gridmesh/gridmesh/grid/plan"
)

// Of large children few are written at once, for each is decoded meanwhile; of
// others as many as a namespace may. What is larger than that is the only such, whosever it is.
func TestLargeChildrenAreWrittenFewAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		image string
		most  int64
		units []string
		also  []string // namespaces
	}{
		"small":    {"v1", 4, []string{"a", "b", "c", "d", "e", "f"}, nil},
		"large":    {strings.Repeat("v", 100<<10), 2, []string{"a", "b", "c", "d", "e", "f"}, nil},
		"huge":     {strings.Repeat("v", 1<<20), 1, []string{"a", "b", "c"}, nil},
		"everyone": {strings.Repeat("v", 300<<10), 1, []string{"a"}, []string{"others", "theirs"}},
	} {
		t.Run(name, func(t *testing.T) {
			var now, most atomic.Int64
			before := func(_ context.Context, verb gridtest.Verb, _ plan.Ref) error {
				if verb == gridtest.Apply {
					n := now.Add(1)
					for was := most.Load(); was < n && !most.CompareAndSwap(was, n); was = most.Load() {
					}
					time.Sleep(time.Second)
					now.Add(-1)
				}
				return nil
			}
			run(t, settings{Config: gridtest.Config{Before: before}, parallel: 16}, func(c *gridtest.Cluster) {
				shops(tc.units...)(c)
				update(c, tillGrid, "v1", tc.image)
				for _, namespace := range tc.also {
					update(c, tillGrid, "v1", tc.image, "name: till,", "name: till, namespace: "+namespace+",")
				}
			}, func(w *world) {
				w.pass(time.Minute)
				want := len(tc.units) * (1 + len(tc.also))
				if n := len(w.Names("Deployment")); n != want || most.Load() != tc.most {
					t.Errorf("%d children were made, %d at once at most; want %d, and %d at once", n, most.Load(), want, tc.most)
				}
			})
		})
	}
}
