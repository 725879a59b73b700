package gridtest

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/gridmesh/gridmesh/grid/plan"
)

// Update creates or replaces objects as an older program or a person does, by
// updates under a field manager. Each is YAML; the status is kept where none
// is given.
func (c *Cluster) Update(manager string, manifests ...string) {
	for _, text := range manifests {
		var obj plan.Object
		if err := yaml.Unmarshal([]byte(text), &obj); err != nil {
			panic(err)
		}
		c.UpdateObject(manager, obj)
	}
}

// UpdateObject is Update for one object.
func (c *Cluster) UpdateObject(manager string, obj plan.Object) {
	next := &unstructured.Unstructured{Object: roundTrip(obj)}
	ref := plan.RefOf(next.Object)
	c.mu.Lock()
	defer c.mu.Unlock()
	gvk := next.GroupVersionKind()
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(gvk)
	if old := c.objects[ref]; old != nil {
		live = old.DeepCopy()
		next.SetUID(old.GetUID())
		next.SetCreationTimestamp(old.GetCreationTimestamp())
		next.SetGeneration(old.GetGeneration())
		if next.Object["status"] == nil && old.Object["status"] != nil {
			next.Object["status"] = old.DeepCopy().Object["status"]
		}
	}
	if ref.Namespace != "" {
		next.SetNamespace(ref.Namespace)
	}
	managed, err := c.manager(gvk).Update(live, next, manager)
	if err != nil {
		panic(err)
	}
	c.byHand(func() { c.store(ref, managed.(*unstructured.Unstructured)) })
}

// Edit changes an object in place by hand.
func (c *Cluster) Edit(ref plan.Ref, change func(obj plan.Object)) {
	obj := c.Object(ref)
	if obj == nil {
		panic(fmt.Sprintf("there is no %s", ref))
	}
	change(obj)
	unstructured.RemoveNestedField(obj, "metadata", "managedFields")
	c.UpdateObject("kubectl-edit", obj)
}

// Remove deletes an object by hand, and what it owns.
func (c *Cluster) Remove(ref plan.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.objects[ref] == nil {
		panic(fmt.Sprintf("there is no %s", ref))
	}
	c.byHand(func() { c.remove(ref) })
}

// RemoveAlone deletes an object by hand as --cascade=orphan does: what it owns
// loses the reference to it first.
func (c *Cluster) RemoveAlone(ref plan.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	uid := c.objects[ref].GetUID()
	c.byHand(func() {
		for other, u := range c.objects {
			owners := slices.DeleteFunc(u.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == uid })
			if len(owners) == len(u.GetOwnerReferences()) {
				continue
			}
			next := u.DeepCopy()
			if next.SetOwnerReferences(owners); len(owners) == 0 {
				next.SetOwnerReferences(nil)
			}
			c.store(other, next)
		}
		c.remove(ref)
	})
}

// byHand keeps a change out of the calls of the API.
func (c *Cluster) byHand(change func()) {
	calls := c.calls
	c.calls = nil
	change()
	c.calls = calls
}

// Node sets a Node that is ready, with labels as pairs of key and value.
func (c *Cluster) Node(name string, labels ...string) {
	set := plan.Object{}
	for i := 0; i < len(labels); i += 2 {
		set[labels[i]] = labels[i+1]
	}
	c.UpdateObject("kubelet", plan.Object{
		"apiVersion": "v1", "kind": "Node", "metadata": plan.Object{"name": name, "labels": set},
		"status": plan.Object{"conditions": []any{plan.Object{"type": "Ready", "status": "True"}}},
	})
}

// RollOut gives a workload the status of one that is rolled out.
func (c *Cluster) RollOut(ref plan.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.objects[ref].DeepCopy()
	rollOut(next)
	c.byHand(func() { c.store(ref, next) })
}

func rollOut(u *unstructured.Unstructured) {
	if k := u.GetKind(); k != "Deployment" && k != "StatefulSet" {
		return
	}
	n, found, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
	if !found {
		n = 1
	}
	u.Object["status"] = plan.Object{"observedGeneration": u.GetGeneration(), "replicas": n, "updatedReplicas": n, "readyReplicas": n, "availableReplicas": n}
}

// Object is a copy of an object as it is stored, managed fields included, or nil.
func (c *Cluster) Object(ref plan.Ref) plan.Object {
	c.mu.Lock()
	defer c.mu.Unlock()
	if u := c.objects[ref]; u != nil {
		return u.DeepCopy().Object
	}
	return nil
}

// Names are the objects of a kind, sorted.
func (c *Cluster) Names(kind string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []string
	for ref := range c.objects {
		if ref.Kind == kind {
			list = append(list, ref.Name)
		}
	}
	slices.Sort(list)
	return list
}

// Calls are all calls of the API so far that a condition holds for.
func (c *Cluster) Calls(which func(Call) bool) []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []Call
	for _, call := range c.calls {
		if which(call) {
			list = append(list, call)
		}
	}
	return list
}

// Recorder keeps Events; it implements grid.Events.
type Recorder struct {
	mu   sync.Mutex
	list []string
}

// Event implements grid.Events.
func (r *Recorder) Event(about corev1.ObjectReference, _, reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ref := plan.Ref{Kind: about.Kind, Namespace: about.Namespace, Name: about.Name}
	r.list = append(r.list, fmt.Sprintf("%s: %s: %s", ref, reason, message))
}

// Has reports whether an Event has a text in it.
func (r *Recorder) Has(text string) bool {
	return slices.ContainsFunc(r.All(), func(e string) bool { return strings.Contains(e, text) })
}

// All are all Events: object, reason and message.
func (r *Recorder) All() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}
