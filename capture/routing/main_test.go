package routing

import (
	"testing"

	"github.com/gridmesh/gridmesh/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Namespaced(m.Run) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
