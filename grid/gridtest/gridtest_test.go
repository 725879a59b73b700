package gridtest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/gridmesh/gridmesh/grid/gridtest"
	"github.com/gridmesh/gridmesh/grid/plan"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The twin behaves as the real API server does, where a controller could tell.
func TestTwinConforms(t *testing.T) {
	gridtest.Conformance(t, func(*testing.T) gridtest.System {
		c := gridtest.New(gridtest.Config{})
		return gridtest.System{
			API: c, Mirror: c, Namespace: "default",
			Create: func(_ *testing.T, obj plan.Object, manager string) { c.UpdateObject(manager, obj) },
		}
	})
}
