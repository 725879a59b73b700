package lead

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gridmesh/gridmesh/kube/internal/apitest"
)

const policyPath = "/apis/admissionregistration.k8s.io/v1/"

// kindsServed has an API server serve policies of these kinds.
type kindsServed struct {
	mu      sync.Mutex
	kinds   map[string]string // resource -> kind
	refused string            // a path that is forbidden
}

func (k *kindsServed) hook(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case r.URL.Path+"/" == policyPath && len(k.kinds) == 0:
		apitest.Fail(w, http.StatusNotFound, "NotFound")
	case r.URL.Path+"/" == policyPath:
		var list []string
		for resource, kind := range k.kinds {
			list = append(list, fmt.Sprintf(`{"name":%q,"kind":%q},{"name":"%s/status","kind":"Other"}`, resource, kind, resource))
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"admissionregistration.k8s.io/v1","resources":[%s]}`, strings.Join(list, ","))
	case r.URL.Path == k.refused:
		apitest.Fail(w, http.StatusForbidden, "Forbidden")
	default:
		next(w, r)
	}
}

func (k *kindsServed) set(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}

func policyOf(kind, name string) map[string]any {
	return map[string]any{"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": map[string]any{"name": name}, "spec": map[string]any{"is": "wanted"}}
}

// Each is written where it is not there or another, of the kinds that are served; one that is
// refused is told of, and keeps no other away; others' are left alone.
func TestObjectsAreWrittenWhereTheyDiffer(t *testing.T) {
	t.Parallel()
	s, k := apitest.New(t), &kindsServed{}
	s.Hook(k.hook)
	writes := 0
	o := &Objects{
		Client: s.Client(t), Version: schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}, Manager: "gridmesh", Same: same,
		Objects: []map[string]any{policyOf("ValidatingPolicy", "a"), policyOf("ValidatingPolicy", "b"), policyOf("MutatingPolicy", "a"), policyOf("MutatingPolicy", "b")},
		Wrote:   func(error) { writes++ },
	}
	install := func(when string, want Installed, written int, fault string) {
		t.Helper()
		writes = 0
		done, err := o.Install(t.Context())
		if !reflect.DeepEqual(done, want) || writes != written || fault == "" != (err == nil) || !strings.Contains(fmt.Sprint(err), fault) {
			t.Errorf("%s: %+v (%v), %d writes, want %+v, %d", when, done, err, writes, want, written)
		}
	}
	install("no kind is served", Installed{Unserved: []string{"MutatingPolicy", "ValidatingPolicy"}, Left: 4}, 0, "")
	k.set(func() {
		k.kinds = map[string]string{"validatingpolicies": "ValidatingPolicy"}
		k.refused = policyPath + "validatingpolicies/a"
	})
	install("one is refused", Installed{Kept: 1, Failed: 1, Unserved: []string{"MutatingPolicy"}, Left: 2}, 1, "install ValidatingPolicy a")
	k.set(func() { k.refused = "" })
	install("it is not", Installed{Kept: 2, Unserved: []string{"MutatingPolicy"}, Left: 2}, 1, "")
	k.set(func() { k.kinds["mutatingpolicies"] = "MutatingPolicy" })
	install("another kind is served", Installed{Kept: 4}, 2, "")
	s.Put(t, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingPolicy, metadata: {name: others}, spec: {is: theirs}}`)
	install("nothing changed", Installed{Kept: 4}, 0, "")
	s.Put(t, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingPolicy, metadata: {name: b}, spec: {is: changed}}`)
	install("one was changed", Installed{Kept: 4}, 1, "")
	s.Delete(policyPath + "mutatingpolicies/a")
	install("one was deleted", Installed{Kept: 4}, 1, "")
	if s.Get(policyPath+"validatingpolicies/others") == nil || s.Get(policyPath + "validatingpolicies/b")["spec"].(apitest.Object)["is"] != "wanted" ||
		slices.ContainsFunc(s.Requests(), func(r string) bool { return strings.HasPrefix(r, http.MethodDelete) }) {
		t.Errorf("it asked for %v", s.Requests())
	}
	s.Close()
	if _, err := o.Install(t.Context()); err == nil || !strings.Contains(err.Error(), "admissionregistration.k8s.io/v1") {
		t.Errorf("nobody answers: %v", err)
	}
}
