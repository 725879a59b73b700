package gridtest

import (
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/grid/plan"
)

func (s *suite) merges(t *testing.T) {
	g := s.apply(s.grid("merges", "site"), plan.Manager)
	owner := plan.Object{"apiVersion": g.GetAPIVersion(), "kind": g.GetKind(), "name": g.GetName(), "uid": string(g.GetUID()), "controller": true}
	s.apply(s.deployment("merges", map[string]string{"keep": "1", "drop": "1"}), plan.Manager)
	merge := func(metadata plan.Object) *unstructured.Unstructured {
		return s.must(s.API.Merge(s.ctx(), "Deployment", s.Namespace, "merges", plan.Object{"metadata": metadata}))
	}
	got := merge(plan.Object{"annotations": plan.Object{names.Domain + "/drop": nil, names.Domain + "/new": "1"}, "ownerReferences": []any{owner}})
	a := notes(got)
	if _, there := a["drop"]; there || a["keep"] != "1" || a["new"] != "1" || len(got.GetOwnerReferences()) != 1 {
		t.Errorf("annotations %v, owners %v", a, got.GetOwnerReferences())
	}
	if owners := merge(plan.Object{"ownerReferences": []metav1.OwnerReference{}}).GetOwnerReferences(); len(owners) != 0 {
		t.Errorf("owners %v", owners)
	}
}

func (s *suite) mergesOne(t *testing.T) {
	g := s.apply(s.grid("one", "site"), plan.Manager)
	merge := func(uid string) (plan.Object, error) {
		return s.API.Merge(s.ctx(), "DeploymentGrid", s.Namespace, "one", plan.Object{"metadata": plan.Object{"uid": uid, "labels": plan.Object{"a": "1"}}})
	}
	if _, err := merge("22222222-2222-2222-2222-222222222222"); !apierrors.IsInvalid(err) && !apierrors.IsConflict(err) {
		t.Errorf("merge: %v", err)
	}
	if live := s.live("one"); live.GetLabels()["a"] != "" || live.GetUID() != g.GetUID() {
		t.Errorf("another UID was asked for: %v", live.Object["metadata"])
	}
	if got := s.must(merge(string(g.GetUID()))); got.GetLabels()["a"] != "1" {
		t.Errorf("of its own UID: %v", got.Object["metadata"])
	}
}

// label sets a label by a merge patch.
func (s *suite) label(u *unstructured.Unstructured, key string, value any) *unstructured.Unstructured {
	s.t.Helper()
	return s.must(s.API.Merge(s.ctx(), u.GetKind(), u.GetNamespace(), u.GetName(), plan.Object{"metadata": plan.Object{"labels": plan.Object{key: value}}}))
}

// revisions: a new unit may be made of what a revision holds, as the mirror has it.
func (s *suite) revisions(t *testing.T) {
	kept := func(u *unstructured.Unstructured) string {
		list := plan.Revisions("", []plan.Object{u.Object})
		if len(list) != 1 || list[0].Number != 3 {
			t.Fatalf("revisions %v", list)
		}
		image, _, _ := unstructured.NestedString(list[0].Content(), "template", "image")
		return image
	}
	ref := plan.Ref{Kind: plan.RevisionKind, Namespace: s.Namespace, Name: "kept"}
	made := s.apply(plan.Object{
		"apiVersion": "apps/v1", "kind": plan.RevisionKind, "revision": int64(3),
		"metadata": plan.Object{"namespace": s.Namespace, "name": ref.Name, "labels": plan.Object{names.GridSelector: "g"}},
		"data":     plan.Object{"spec": plan.Object{"template": plan.Object{"image": "v1"}}},
	}, plan.Manager)
	if got := kept(made); got != "v1" {
		t.Errorf("applied, it holds %q", got)
	}
	s.eventually("the mirror has it", func() bool { return s.Mirror.Get(ref.Kind, ref.Namespace, ref.Name) != nil })
	if got := kept(s.must(s.Mirror.Get(ref.Kind, ref.Namespace, ref.Name), nil)); got != "v1" {
		t.Errorf("mirrored, it holds %q", got)
	}
}

// zeroed is a Deployment with fields that are empty, zero and false.
func (s *suite) zeroed() plan.Object {
	obj := s.deployment("zeroes", nil)
	pod := obj["spec"].(plan.Object)["template"].(plan.Object)["spec"].(plan.Object)
	pod["hostNetwork"] = false
	pod["containers"] = []any{plan.Object{
		"name": "c", "image": "nothing", "stdin": false, "env": []any{plan.Object{"name": "X", "value": ""}},
		"readinessProbe": plan.Object{"tcpSocket": plan.Object{"port": int64(80)}, "initialDelaySeconds": int64(0)},
	}}
	return obj
}

// zeroes: what DropZeroes takes away is what the API server does not store of a Deployment, which
// therefore is no change by hand.
func (s *suite) zeroes(t *testing.T) {
	made := s.apply(s.zeroed(), plan.Manager)
	stored, dropped := s.Stored(t, "zeroes"), s.zeroed()
	DropZeroes(dropped)
	if got, want := zeroesOf(stored), zeroesOf(dropped); !slices.Equal(got, want) || !slices.Equal(want, []string{"name"}) {
		t.Errorf("of these fields %v are stored, and DropZeroes leaves %v", got, want)
	}
	if again := s.apply(s.zeroed(), plan.Manager); again.GetGeneration() != made.GetGeneration() {
		t.Errorf("applied again: generation %d, was %d", again.GetGeneration(), made.GetGeneration())
	}
}

// zeroesOf are the fields that a Deployment of zeroed has, and one that is not zero.
func zeroesOf(obj plan.Object) (fields []string) {
	pod, _, _ := unstructured.NestedMap(obj, "spec", "template", "spec")
	containers, _, _ := unstructured.NestedSlice(pod, "containers")
	c, _ := containers[0].(plan.Object)
	probe, _, _ := unstructured.NestedMap(c, "readinessProbe")
	list, _, _ := unstructured.NestedSlice(c, "env")
	env, _ := list[0].(plan.Object)
	for name, in := range map[string]plan.Object{"hostNetwork": pod, "stdin": c, "name": env, "value": env, "initialDelaySeconds": probe} {
		if _, there := in[name]; there {
			fields = append(fields, name)
		}
	}
	slices.Sort(fields)
	return fields
}

// rewritten: what is stored is what admission made of it, and an apply of the same, or of another
// value that becomes the same, is no change of the spec.
func (s *suite) rewritten(t *testing.T) {
	generation := int64(0)
	for _, seconds := range []int64{2, 2, 3} {
		obj := s.deployment(Rewritten, nil)
		obj["spec"].(plan.Object)["minReadySeconds"] = seconds
		made := s.apply(obj, plan.Manager)
		if got, _, err := unstructured.NestedInt64(s.Stored(t, Rewritten), "spec", "minReadySeconds"); got != 1 || err != nil {
			t.Errorf("applied with %d: %d is stored: %v", seconds, got, err)
		}
		if generation == 0 {
			generation = made.GetGeneration()
		}
		if made.GetGeneration() != generation {
			t.Errorf("applied with %d: generation %d, was %d", seconds, made.GetGeneration(), generation)
		}
	}
}
