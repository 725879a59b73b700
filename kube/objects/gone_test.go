package objects

import (
	"fmt"
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

// A 404 by who does not know is no word on an object: what a grid has left would be
// deleted by it.
func TestAnotherOnes404(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	put(t, s, "web", "")
	m := NewMirror(s.Client(t), []Kind{deployments}, prune)
	for word, answer := range map[string]http.HandlerFunc{
		"no such path": func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) },
		"a load balancer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, "<p>no backend")
		},
	} {
		s.Hook(func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) { answer(w, r) })
		if live, err := m.Live(t.Context(), "Deployment", "default", "web"); err == nil {
			t.Errorf("%s: there is %v", word, live)
		}
		if err := m.Delete(t.Context(), "Deployment", "default", "web", ""); err == nil {
			t.Errorf("%s: it is deleted", word)
		}
	}
	s.Hook(nil)
	if live, err := m.Live(t.Context(), "Deployment", "default", "none"); live != nil || err != nil {
		t.Errorf("of what is not there: %v, %v", live, err)
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
