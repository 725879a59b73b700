package grid_test

import (
	"testing"

	"github.com/gridmesh/gridmesh/grid/gridtest"
	"github.com/gridmesh/gridmesh/grid/plan"
)

// The twin behaves as the real API server does, where a controller could tell. (Beside
// gridtest this would be a test binary of its own with all of client-go.)
func TestTwinConforms(t *testing.T) {
	gridtest.Conformance(t, func(*testing.T) gridtest.System {
		c := gridtest.New(gridtest.Config{Mutate: admitted})
		return gridtest.System{
			API: c, Mirror: c, Namespace: "default",
			Create: func(_ *testing.T, obj plan.Object, manager string) { c.UpdateObject(manager, obj) },
			Stored: func(_ *testing.T, name string) plan.Object {
				return c.Object(plan.Ref{Kind: "Deployment", Namespace: "default", Name: name})
			},
		}
	})
}

// admitted is what the suite's API server stores of what is written.
func admitted(obj plan.Object) {
	dropZeroes(obj)
	if obj["kind"] == "Deployment" && plan.RefOf(obj).Name == gridtest.Rewritten {
		obj["spec"].(plan.Object)["minReadySeconds"] = int64(1)
	}
}

// dropZeroes is what the API server does to Deployments.
func dropZeroes(obj plan.Object) {
	if obj["kind"] == "Deployment" {
		gridtest.DropZeroes(obj["spec"].(plan.Object))
	}
}
