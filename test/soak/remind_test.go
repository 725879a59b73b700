package soak

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gridmesh/gridmesh/test/cluster"
)

// What Kubernetes forgot is done for it once it had its time: a ReplicaSet is deleted
// before its pods, which it would make again, a pod that goes already without waiting
// for its node, and a Service whose slices are behind is touched as well.
func TestRemind(t *testing.T) {
	const services, pods, sets = "/api/v1/namespaces/default/services/", "/api/v1/namespaces/default/pods/", "/apis/apps/v1/namespaces/default/replicasets/"
	for what, tc := range map[string]struct {
		err  error
		want []string
	}{
		"of another's":           {errors.New("the grid"), nil},
		"slices":                 {&behind{"svc", "no slice"}, []string{"PATCH " + services + "svc"}},
		"a pod":                  {&orphan{pod: "p"}, []string{"DELETE " + pods + "p"}},
		"a pod that goes":        {&orphan{pod: "p", goes: true}, []string{"DELETE " + pods + "p grace 0"}},
		"a ReplicaSet":           {&orphan{pod: "p", set: "set"}, []string{"DELETE " + sets + "set Background"}},
		"a ReplicaSet's, going":  {&orphan{pod: "p", set: "set", goes: true}, []string{"DELETE " + sets + "set Background"}},
		"a pod of no slice":      {errors.Join(&orphan{pod: "p"}, &behind{"svc", "no slice"}), []string{"DELETE " + pods + "p", "PATCH " + services + "svc"}},
		"a pod, seen just now":   {&orphan{pod: "new"}, nil},
		"slices, seen just now":  {&behind{"new", "no slice"}, nil},
		"said within a question": {&missing{"", "objects", &orphan{pod: "p"}}, []string{"DELETE " + pods + "p"}},
	} {
		s, asked := reminding(t)
		s.remind(t.Context(), tc.err)
		if got := asked(); !slices.Equal(got, tc.want) {
			t.Errorf("%s: asked for %q, want %q", what, got, tc.want)
		}
	}
}

// reminding is a run that has waited long enough for p and svc, and what its API
// server is asked for.
func reminding(t *testing.T) (s *Soak, asked func() []string) {
	t.Helper()
	var list []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		line := r.Method + " " + r.URL.Path
		var how metav1.DeleteOptions
		if err := json.NewDecoder(r.Body).Decode(&how); err == nil && r.Method == http.MethodDelete {
			if how.GracePeriodSeconds != nil {
				line += fmt.Sprint(" grace ", *how.GracePeriodSeconds)
			}
			if how.PropagationPolicy != nil {
				line += " " + string(*how.PropagationPolicy)
			}
		}
		list = append(list, line)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{}`))
	}))
	t.Cleanup(srv.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: srv.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-2 * remindAfter)
	s = &Soak{c: &cluster.Cluster{Kube: client}, say: t.Logf, reminded: map[string]time.Time{"p": long, "svc": long}}
	return s, func() []string { srv.Close(); return list }
}
