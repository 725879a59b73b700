package mutate_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/admission/mutate"
	"github.com/gridmesh/gridmesh/admission/mutate/mutatetest"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// stored is an object as an API server has it: with a note of who wrote it, long ago.
func stored(o mutatetest.Object) mutatetest.Object {
	o = o.DeepCopyObject().(mutatetest.Object)
	at := metav1.NewTime(now.Add(-24 * time.Hour))
	o.SetResourceVersion("7")
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &at,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:status":{}}`),
	}})
	return o
}

// decide is a decision with what comes of it.
func decide(t *testing.T, old, next mutatetest.Object, s mutate.Shield) (mutate.Patch, mutate.Reason, mutatetest.Object) {
	t.Helper()
	before := []mutatetest.Object{old.DeepCopyObject().(mutatetest.Object), next.DeepCopyObject().(mutatetest.Object)}
	p, why := mutatetest.Decide(old, next, s)
	if !equality.Semantic.DeepEqual(before, []mutatetest.Object{old, next}) {
		t.Fatal("what was to be read was changed")
	}
	if (len(p) > 0) != (why == mutate.Shielded) {
		t.Fatalf("the patch %v goes with the reason %q", p, why)
	}
	after, err := mutatetest.Apply(next, p)
	if err != nil {
		t.Fatal(err)
	}
	return p, why, after
}

func shieldOf(c mutatetest.Case) mutate.Shield {
	s, _ := mutate.ParseShield(c.Entries(now))
	return s
}

func TestCases(t *testing.T) {
	for _, c := range mutatetest.Cases(now) {
		t.Run(string(c.Resource())+"/"+c.Name, func(t *testing.T) {
			if looked := mutate.Writes(c.Writer(), c.Resource()); looked != (c.Want != "") {
				t.Fatalf("writes of %s by %s are looked at: %v", c.Resource(), c.Writer(), looked)
			}
			if c.Want == "" {
				return
			}
			old := stored(c.Old)
			p, why, after := decide(t, old, c.Next(old, now), shieldOf(c))
			if why != c.Want {
				t.Fatalf("%q, want %q: %v", why, c.Want, p)
			}
			if same := equality.Semantic.DeepEqual(old, after); same != c.Nothing {
				text, _ := json.Marshal(after)
				t.Errorf("nothing is left of it: %v, want %v:\n%s", same, c.Nothing, text)
			}
		})
	}
}

// Without managedFields a write that has no time of its own has none.
func TestUndated(t *testing.T) {
	for _, c := range mutatetest.Cases(now) {
		if c.Want != mutate.Shielded {
			continue
		}
		old := stored(c.Old)
		next := c.Next(old, now)
		next.SetManagedFields(nil)
		_, why, _ := decide(t, old, next, shieldOf(c))
		dated := c.Resource() == mutate.Pods || c.Resource() == mutate.Nodes && c.Name != "the taint without a time"
		if (why == mutate.Undated) == dated {
			t.Errorf("%s, %s: %q", c.Resource(), c.Name, why)
		}
	}
}

func TestParseShield(t *testing.T) {
	s, wrong := mutate.ParseShield(map[string]string{
		"a": "2026-03-04T05:06:07Z", "b": "2026-03-04T06:06:07+01:00", "c": "soon", "d": "", "e": "1772600767", "f": "2026-03-04T05:06:07",
	})
	if got := fmt.Sprint(len(s), s["a"].Equal(now), s["b"].Equal(now), wrong); got != "2 true true [c d e f]" {
		t.Errorf("%s: %v", got, s)
	}
	if s, wrong := mutate.ParseShield(nil); len(s) > 0 || len(wrong) > 0 {
		t.Errorf("nothing has %v, and wrong %v", s, wrong)
	}
}

// A kubelet and the scheduler are never looked at, nor resources that the cases do not have.
func TestWriters(t *testing.T) {
	for _, r := range resources {
		w := mutate.Writers(r)
		if len(w) != 2 || slices.Contains(w, "system:node:a") || mutate.Writes("system:kube-scheduler", r) || mutate.Writes("", r) {
			t.Errorf("writers of %s: %q", r, w)
		}
	}
	for _, r := range []mutate.Resource{"nodes/status", "pods", ""} {
		if w := mutate.Writers(r); len(w) > 0 {
			t.Errorf("writers of %q: %q", r, w)
		}
	}
}
