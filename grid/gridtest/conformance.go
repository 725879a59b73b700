package gridtest

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/grid"
	"github.com/gridmesh/gridmesh/grid/plan"
)

// System is an API server under test, with a namespace that is the suite's
// alone. The kinds of grids are installed, and no controller of grids runs.
type System struct {
	API       grid.API
	Mirror    grid.Mirror
	Namespace string
	// Create creates an object by an update under a field manager, as an older
	// program does.
	Create func(t *testing.T, obj plan.Object, manager string)
	// Stored is a Deployment of the namespace with all that is stored of it.
	Stored func(t *testing.T, name string) plan.Object
}

// Rewritten is the name of a Deployment whose spec.minReadySeconds an admission
// of the system sets to 1, whoever writes it.
const Rewritten = "rewritten"

// Conformance checks what the controller relies on. Both the twin and the real
// API server pass it.
func Conformance(t *testing.T, open func(t *testing.T) System) {
	t.Helper()
	for _, tc := range []struct {
		name string
		test func(s *suite, t *testing.T)
	}{
		{"an object that is not there", (*suite).notThere},
		{"apply creates, and the same again is no write", (*suite).applyTwice},
		{"apply takes back what it names no longer, and leaves what others wrote", (*suite).applyOwns},
		{"apply and merge of another version conflict", (*suite).conflicts},
		{"merge of another UID is refused", (*suite).mergesOne},
		{"merge sets and removes metadata", (*suite).merges},
		{"what is zero is not stored", (*suite).zeroes},
		{"admission has the last word", (*suite).rewritten},
		{"the generation counts changes of the spec", (*suite).generations},
		{"who scales is in the managed fields", (*suite).scalers},
		{"fields of an older program are taken over", (*suite).takesOver},
		{"a status is written to the object of a UID", (*suite).statuses},
		{"a revision keeps what it holds", (*suite).revisions},
		{"delete asks for a version", (*suite).deletes},
		{"the mirror follows what bears the label", (*suite).mirrors},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.test(&suite{System: open(t), t: t}, t)
		})
	}
}

// patience is how long a mirror may take.
const patience = 20 * time.Second

type suite struct {
	System
	t *testing.T
}

func (s *suite) ctx() context.Context { return s.t.Context() }

func (s *suite) must(obj plan.Object, err error) *unstructured.Unstructured {
	s.t.Helper()
	if err != nil || obj == nil {
		s.t.Fatalf("got %v: %v", obj, err)
	}
	return &unstructured.Unstructured{Object: obj}
}

func (s *suite) live(grid string) *unstructured.Unstructured {
	s.t.Helper()
	return s.must(s.API.Live(s.ctx(), "DeploymentGrid", s.Namespace, grid))
}

// noted are annotations that pruned objects keep.
func noted(list map[string]string) plan.Object {
	out := plan.Object{}
	for key, v := range list {
		out[names.Domain+"/"+key] = v
	}
	return out
}

// notes are those of an object.
func notes(u *unstructured.Unstructured) map[string]string {
	out := map[string]string{}
	for key, v := range u.GetAnnotations() {
		if key, ours := strings.CutPrefix(key, names.Domain+"/"); ours {
			out[key] = v
		}
	}
	return out
}

// deployment is one that the API server takes, with annotations.
func (s *suite) deployment(name string, list map[string]string) plan.Object {
	return plan.Object{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": plan.Object{"namespace": s.Namespace, "name": name, "annotations": noted(list)},
		"spec": plan.Object{
			"selector": plan.Object{"matchLabels": plan.Object{"app": name}},
			"template": plan.Object{
				"metadata": plan.Object{"labels": plan.Object{"app": name}},
				"spec":     plan.Object{"nodeSelector": plan.Object{"nowhere": "at-all"}, "containers": []any{plan.Object{"name": "c", "image": "nothing"}}},
			},
		},
	}
}

func (s *suite) apply(obj plan.Object, manager string) *unstructured.Unstructured {
	s.t.Helper()
	out := s.must(s.API.Apply(s.ctx(), obj, manager))
	s.t.Cleanup(func() {
		_ = s.API.Delete(context.Background(), out.GetKind(), out.GetNamespace(), out.GetName(), "")
	})
	return out
}

func (s *suite) notThere(t *testing.T) {
	if obj, err := s.API.Live(s.ctx(), "Deployment", s.Namespace, "nobody"); obj != nil || err != nil {
		t.Errorf("live: %v, %v", obj, err)
	}
	if _, err := s.API.Merge(s.ctx(), "Deployment", s.Namespace, "nobody", plan.Object{"metadata": plan.Object{"labels": plan.Object{"a": "b"}}}); !apierrors.IsNotFound(err) {
		t.Errorf("merge: %v", err)
	}
	if err := s.API.WriteStatus(s.ctx(), "DeploymentGrid", s.Namespace, "nobody", "uid", plan.Object{}); !apierrors.IsNotFound(err) {
		t.Errorf("status: %v", err)
	}
	if err := s.API.TakeOver(s.ctx(), "Deployment", s.Namespace, "nobody", "a", "b"); !apierrors.IsNotFound(err) {
		t.Errorf("take over: %v", err)
	}
	if err := s.API.Delete(s.ctx(), "Deployment", s.Namespace, "nobody", ""); err != nil {
		t.Errorf("delete: %v", err)
	}
	// An apply makes what is not there, whatever version it asks for.
	gone := &unstructured.Unstructured{Object: s.grid("gone-before", "site")}
	gone.SetResourceVersion("987654321")
	if made := s.apply(gone.Object, plan.Manager); made.GetResourceVersion() == "987654321" || made.GetGeneration() != 1 {
		t.Errorf("made %v", made.Object["metadata"])
	}
}

func (s *suite) applyTwice(t *testing.T) {
	a := s.apply(s.grid("twice", "site"), plan.Manager)
	if a.GetUID() == "" || a.GetResourceVersion() == "" || a.GetGeneration() != 1 || len(a.GetManagedFields()) != 0 {
		t.Errorf("created: %v", a.Object["metadata"])
	}
	b := s.apply(s.grid("twice", "site"), plan.Manager)
	if b.GetGeneration() != 1 || b.GetUID() != a.GetUID() || a.GetResourceVersion() != b.GetResourceVersion() {
		t.Errorf("applied again: version %s, was %s; generation %d", b.GetResourceVersion(), a.GetResourceVersion(), b.GetGeneration())
	}
}

func (s *suite) applyOwns(t *testing.T) {
	s.apply(s.deployment("owns", map[string]string{"a": "1", "b": "1"}), plan.Manager)
	other := plan.Object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": plan.Object{"namespace": s.Namespace, "name": "owns", "annotations": noted(map[string]string{"b": "2", "c": "2"})}}
	s.apply(other, "another") // by force
	got := notes(s.apply(s.deployment("owns", nil), plan.Manager))
	if want := map[string]string{"b": "2", "c": "2"}; !reflect.DeepEqual(got, want) {
		t.Errorf("annotations %v, want %v", got, want)
	}
	if got := notes(s.apply(s.deployment("owns", map[string]string{"c": "3"}), plan.Manager))["c"]; got != "3" {
		t.Errorf("c is %s: it was not taken", got)
	}
}

func (s *suite) conflicts(t *testing.T) {
	old := s.apply(s.grid("versions", "site"), plan.Manager)
	now := s.label(old, "hand", "1")
	if old.GetResourceVersion() == now.GetResourceVersion() {
		t.Fatalf("the version stays %s", old.GetResourceVersion())
	}
	obj := &unstructured.Unstructured{Object: s.grid("versions", "room")}
	obj.SetResourceVersion(old.GetResourceVersion())
	if _, err := s.API.Apply(s.ctx(), obj.Object, plan.Manager); !apierrors.IsConflict(err) {
		t.Errorf("apply: %v", err)
	}
	patch := plan.Object{"metadata": plan.Object{"resourceVersion": old.GetResourceVersion(), "labels": plan.Object{"a": "1"}}}
	if _, err := s.API.Merge(s.ctx(), "DeploymentGrid", s.Namespace, "versions", patch); !apierrors.IsConflict(err) {
		t.Errorf("merge: %v", err)
	}
	live := s.live("versions")
	if live.GetLabels()["a"] != "" || live.GetGeneration() != 1 {
		t.Errorf("labels %v, generation %d", live.GetLabels(), live.GetGeneration())
	}
	obj.SetResourceVersion(live.GetResourceVersion())
	if got := s.apply(obj.Object, plan.Manager); got.GetGeneration() != 2 || got.GetLabels()["hand"] != "1" {
		t.Errorf("of the present version: generation %d, labels %v", got.GetGeneration(), got.GetLabels())
	}
}

func (s *suite) generations(t *testing.T) {
	a := s.apply(s.grid("generations", "site"), plan.Manager)
	b := s.label(a, "x", "1")
	c := s.apply(s.grid("generations", "room"), plan.Manager)
	if a.GetGeneration() != 1 || b.GetGeneration() != 1 || c.GetGeneration() != 2 {
		t.Errorf("generations %d, %d, %d", a.GetGeneration(), b.GetGeneration(), c.GetGeneration())
	}
}

// grid is a DeploymentGrid that the API server takes.
func (s *suite) grid(name, key string) plan.Object {
	return plan.Object{
		"apiVersion": "superedge.io/v1", "kind": "DeploymentGrid", "metadata": plan.Object{"namespace": s.Namespace, "name": name},
		"spec": plan.Object{"gridUniqKey": key, "template": s.deployment(name, nil)["spec"]},
	}
}

func (s *suite) scalers(t *testing.T) {
	obj := s.deployment("scaled", nil)
	obj["spec"].(plan.Object)["replicas"] = int64(2)
	s.apply(obj, plan.Manager)
	hpa := plan.Object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": plan.Object{"namespace": s.Namespace, "name": "scaled"}, "spec": plan.Object{"replicas": int64(5)}}
	s.apply(hpa, "hpa")
	got := s.apply(s.deployment("scaled", nil), plan.Manager)
	n, _, _ := unstructured.NestedInt64(got.Object, "spec", "replicas")
	fields := got.GetManagedFields()
	if n != 5 || len(fields) != 1 || fields[0].Manager != "hpa" {
		t.Errorf("%d replicas, managed by %v", n, fields)
	}
}

func (s *suite) takesOver(t *testing.T) {
	obj := s.deployment("older", map[string]string{"old": "1", "both": "1"})
	obj["spec"].(plan.Object)["replicas"] = int64(1)
	s.Create(t, obj, plan.SuperEdgeManager)
	t.Cleanup(func() { _ = s.API.Delete(context.Background(), "Deployment", s.Namespace, "older", "") })
	s.eventually("its fields are taken over", func() bool {
		err := s.API.TakeOver(s.ctx(), "Deployment", s.Namespace, "older", plan.SuperEdgeManager, plan.Manager)
		if err != nil && !apierrors.IsConflict(err) { // with what the workload's controller writes
			t.Fatal(err)
		}
		return err == nil
	})
	got := notes(s.apply(s.deployment("older", map[string]string{"both": "1"}), plan.Manager))
	if want := map[string]string{"both": "1"}; !reflect.DeepEqual(got, want) {
		t.Errorf("annotations %v, want %v", got, want)
	}
}

func (s *suite) statuses(t *testing.T) {
	g := s.apply(s.grid("told", "site"), plan.Manager)
	status := plan.Object{"units": int64(3), "readyUnits": int64(1), "updatedUnits": int64(0), "darkUnits": int64(0), "heldUnits": int64(0), "refusedUnits": int64(0)}
	if err := s.API.WriteStatus(s.ctx(), "DeploymentGrid", s.Namespace, "told", "22222222-2222-2222-2222-222222222222", status); err == nil {
		t.Error("the status of another UID was written")
	}
	if err := s.API.WriteStatus(s.ctx(), "DeploymentGrid", s.Namespace, "told", string(g.GetUID()), status); err != nil {
		t.Fatal(err)
	}
	now := s.live("told")
	if got := now.Object["status"]; !reflect.DeepEqual(got, any(status)) || now.GetGeneration() != 1 {
		t.Errorf("status %v, generation %d", got, now.GetGeneration())
	}
	again := plan.Object{"units": int64(3), "readyUnits": int64(3), "updatedUnits": int64(0), "darkUnits": int64(0), "heldUnits": int64(0), "refusedUnits": int64(0)}
	if err := s.API.WriteStatus(s.ctx(), "DeploymentGrid", s.Namespace, "told", string(g.GetUID()), again); err != nil {
		t.Error(err)
	}
	if n, _, _ := unstructured.NestedInt64(s.live("told").Object, "status", "readyUnits"); n != 3 {
		t.Errorf("%d units are ready", n)
	}
}

func (s *suite) deletes(t *testing.T) {
	old := s.apply(s.grid("gone", "site"), plan.Manager)
	now := s.label(old, "hand", "1")
	if err := s.API.Delete(s.ctx(), "DeploymentGrid", s.Namespace, "gone", old.GetResourceVersion()); !apierrors.IsConflict(err) {
		t.Errorf("of an older version: %v", err)
	}
	if err := s.API.Delete(s.ctx(), "DeploymentGrid", s.Namespace, "gone", now.GetResourceVersion()); err != nil {
		t.Errorf("of the present version: %v", err)
	}
	if live, err := s.API.Live(s.ctx(), "DeploymentGrid", s.Namespace, "gone"); live != nil || err != nil {
		t.Errorf("it is still there: %v, %v", live, err)
	}
}

func (s *suite) mirrors(t *testing.T) {
	obj := s.deployment("mirrored", nil)
	obj["metadata"].(plan.Object)["labels"] = plan.Object{names.GridSelector: "g"}
	ref := plan.Ref{Kind: "Deployment", Namespace: s.Namespace, Name: "mirrored"}
	named := map[plan.Ref]bool{}
	changes := func() {
		s.Mirror.Changes(func(kind, namespace, name string) {
			named[plan.Ref{Kind: kind, Namespace: namespace, Name: name}] = true
		})
	}
	s.apply(s.deployment("unlabelled", nil), plan.Manager)
	mirrored := s.apply(obj, plan.Manager)
	s.eventually("the mirror names it", func() bool { changes(); return named[ref] })
	got := s.must(s.Mirror.Get(ref.Kind, ref.Namespace, ref.Name), nil)
	if got.GetLabels()[names.GridSelector] != "g" || len(got.GetManagedFields()) != 0 {
		t.Errorf("mirrored: %v", got.Object["metadata"])
	}
	if other := s.Mirror.Get(ref.Kind, ref.Namespace, "unlabelled"); other != nil {
		t.Errorf("mirrored without the label: %v", other)
	}
	clear(named)
	s.label(mirrored, names.GridSelector, nil)
	s.eventually("what loses the label leaves it", func() bool {
		changes()
		return named[ref] && s.Mirror.Get(ref.Kind, ref.Namespace, ref.Name) == nil
	})
}

func (s *suite) eventually(what string, ok func() bool) {
	s.t.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			s.t.Fatalf("%s: not within %s", what, patience)
		}
		select {
		case <-s.Mirror.Wake():
		case <-time.After(20 * time.Millisecond):
		}
	}
}
