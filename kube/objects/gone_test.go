package objects

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gridmesh/gridmesh/kube/internal/apitest"
)

var grids = Kind{Resource: schema.GroupVersionResource{Group: "superedge.io", Version: "v1", Resource: "deploymentgrids"}, Kind: "DeploymentGrid"}

const till = "/apis/superedge.io/v1/namespaces/default/deploymentgrids/till"

// A kind that is not served any more, because its CRD was deleted, is a fault and
// no list without objects: what the watch did not say is gone stays, until the
// kind is back and a list says so.
func TestAKindThatGoesAndReturns(t *testing.T) {
	t.Parallel()
	for name, told := range map[string]bool{"its objects are told of": true, "nothing is told": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := apitest.New(t)
			s.Put(t, `{apiVersion: superedge.io/v1, kind: DeploymentGrid, metadata: {namespace: default, name: till}}`)
			m := NewMirror(s.Client(t), []Kind{grids}, prune)
			run(t, s, m)
			if got := changes(t, m); !slices.Equal(got, []string{"DeploymentGrid default/till"}) {
				t.Fatalf("at the start %q changed", got)
			}
			if told {
				s.Delete(till)
				if got := changes(t, m); len(got) != 1 || m.Get("DeploymentGrid", "default", "till") != nil {
					t.Errorf("%q changed", got)
				}
			}
			s.Hook(func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) { http.NotFound(w, nil) })
			s.EndWatches()
			until(t, "a fault is told", func() bool {
				err := m.Fault()
				return err != nil && strings.Contains(err.Error(), "deploymentgrids.superedge.io")
			})
			if there := m.Get("DeploymentGrid", "default", "till") != nil; there == told {
				t.Errorf("while the kind is not served, till is there: %v", there)
			}
			if !told {
				s.Delete(till)
			}
			s.Hook(nil)
			s.Put(t, `{apiVersion: superedge.io/v1, kind: DeploymentGrid, metadata: {namespace: default, name: shop}}`)
			until(t, "the kind is followed again", func() bool {
				return m.Get("DeploymentGrid", "default", "shop") != nil && m.Get("DeploymentGrid", "default", "till") == nil && m.Fault() == nil
			})
		})
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begin := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begin) > 60*time.Second {
			t.Fatal("not within a minute: " + what)
		}
	}
}
