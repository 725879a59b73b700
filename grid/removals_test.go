package grid_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gridmesh/gridmesh/grid/gridtest"
	"github.com/gridmesh/gridmesh/grid/plan"
)

// A removal that fails, or that another child of its unit is in the way of, uses up
// nobody's share.
func TestARemovalThatFailsHoldsUpNoOther(t *testing.T) {
	for name, test := range map[string]struct {
		verb gridtest.Verb
		name string
		want string
		by   time.Duration
	}{
		"the unit's other child cannot be marked": {gridtest.Merge, "till-a2", "till-a2 till-c till-d", 11 * time.Minute},
		"it cannot be deleted":                    {gridtest.Delete, "till-a", "till-a till-c till-d", 16 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			before := func(_ context.Context, verb gridtest.Verb, ref plan.Ref) error {
				if verb == test.verb && ref == deployment(test.name) {
					return apierrors.NewInternalError(errors.New("a webhook is away"))
				}
				return nil
			}
			run(t, settings{Config: gridtest.Config{AutoReady: true, Before: before}}, func(c *gridtest.Cluster) {
				shops("a", "b", "c", "d")(c)
				update(c, tillGrid)
			}, func(w *world) {
				w.soon()
				second := w.Object(deployment("till-a"))
				metadata := second["metadata"].(plan.Object)
				metadata["name"] = "till-a2"
				delete(metadata, "uid")
				delete(metadata, "managedFields")
				delete(metadata, "resourceVersion")
				w.UpdateObject("kubectl", second)
				w.soon()
				w.Node("node-a", "stie", "a")
				w.Node("node-b", "stie", "b")
				w.pass(test.by)
				w.names("Deployment", strings.Fields(test.want)...)
			})
		})
	}
}
