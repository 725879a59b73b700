package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/api/names"
	apiv1 "github.com/gridmesh/gridmesh/api/v1"
)

// gridKinds are the kinds of children, and whose they are.
var gridKinds = map[string]string{"Deployment": "DeploymentGrid", "StatefulSet": "StatefulSetGrid", "Service": "ServiceGrid"}

// child is a Deployment, StatefulSet or Service, read.
type child struct {
	ref                 Ref
	obj                 Object
	uid, version        string
	labels, annotations map[string]string
	ownerKind           string // of its controller, "" for none
	ownerName, ownerUID string
}

func readChild(obj Object) *child {
	c := &child{ref: RefOf(obj), obj: obj, uid: text(obj, "metadata", "uid"), version: text(obj, "metadata", "resourceVersion")}
	c.labels, c.annotations = texts(obj, "metadata", "labels"), texts(obj, "metadata", "annotations")
	owner := controllerOf(obj)
	c.ownerKind, c.ownerName, c.ownerUID = text(owner, "kind"), text(owner, "name"), text(owner, "uid")
	return c
}

// controllerOf is the owner reference of an object's controller, or nil.
func controllerOf(obj Object) Object {
	owners, _ := object(obj, "metadata")["ownerReferences"].([]any)
	for _, o := range owners {
		if ref, ok := o.(Object); ok && ref["controller"] == true {
			return ref
		}
	}
	return nil
}

// of is the grid that a child belongs to: its controller, or, where it has
// none, the one that its labels name.
func (c *child) of() (Ref, bool) {
	kind := gridKinds[c.ref.Kind]
	switch {
	case c.ownerKind == kind:
		return Ref{kind, c.ref.Namespace, c.ownerName}, true
	case c.ownerKind == "" && c.labels[names.GridSelector] != "" && c.labels[names.GridUniqKey] != "":
		return Ref{kind, c.ref.Namespace, c.labels[names.GridSelector]}, true
	}
	return Ref{}, false
}

// unit is a child's unit: as annotated, or, for SuperEdge's, by its node selector.
func (c *child) unit(unitKey string) string {
	if unit, ok := c.annotations[names.Unit]; ok {
		return unit
	}
	return text(c.obj, "spec", "template", "spec", "nodeSelector", unitKey)
}

func (c *child) goneSince() (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, c.annotations[names.UnitGone])
	return at, err == nil
}

// appliedAt is when a child was applied last.
func (c *child) appliedAt() time.Time {
	text := cmp.Or(c.annotations[names.AppliedAt], text(c.obj, "metadata", "creationTimestamp"))
	at, _ := time.Parse(time.RFC3339, text)
	return at
}

// state is what SuperEdge's users read of a workload's status.
func (c *child) state() apiv1.UnitState {
	n := func(field string) int64 { return number(c.obj, 0, "status", field) }
	s := apiv1.UnitState{
		ObservedGeneration: n("observedGeneration"), Replicas: n("replicas"), ReadyReplicas: n("readyReplicas"),
		UpdatedReplicas: n("updatedReplicas"), AvailableReplicas: n("availableReplicas"),
	}
	conditions, _ := object(c.obj, "status")["conditions"].([]any)
	for _, o := range conditions {
		if condition, ok := o.(Object); ok && condition["type"] == "Available" {
			s.Conditions = []apiv1.UnitCondition{{Type: "Available", Status: metav1.ConditionStatus(text(condition, "status"))}}
		}
	}
	return s
}

// progress tells whether a workload has all replicas ready, and whether all of
// them are of its current template, as "kubectl rollout status" does.
func (c *child) progress() (ready, complete bool) {
	s := c.state()
	want := number(c.obj, 1, "spec", "replicas")
	ready = s.ReadyReplicas >= want
	if s.ObservedGeneration < number(c.obj, 0, "metadata", "generation") {
		return ready, false
	}
	if c.ref.Kind == "StatefulSet" {
		if text(c.obj, "spec", "updateStrategy", "type") == "OnDelete" {
			return ready, ready // pods follow when somebody deletes them
		}
		partition := number(c.obj, 0, "spec", "updateStrategy", "rollingUpdate", "partition")
		return ready, ready && s.UpdatedReplicas >= want-partition
	}
	return ready, ready && s.UpdatedReplicas >= want && s.Replicas <= s.UpdatedReplicas && s.AvailableReplicas >= want
}

// lag says how far a workload is.
func (c *child) lag() string {
	s := c.state()
	return fmt.Sprintf("of %d replicas %d are ready, %d are current", number(c.obj, 1, "spec", "replicas"), s.ReadyReplicas, s.UpdatedReplicas)
}

// othersScale tells whether another manager owns spec.replicas of a live
// child: an autoscaler, or somebody with kubectl scale.
func (c *child) othersScale() bool {
	return slices.ContainsFunc(c.scalers(), func(m string) bool { return m != Manager && m != SuperEdgeManager })
}

// scalers are the field managers of spec.replicas.
func (c *child) scalers() (list []string) {
	entries, _ := object(c.obj, "metadata")["managedFields"].([]any)
	for _, e := range entries {
		entry, _ := e.(Object)
		if _, owns := object(entry, "fieldsV1", "f:spec")["f:replicas"]; owns {
			list = append(list, text(entry, "manager"))
		}
	}
	return list
}

// Prune drops from an object in place what plans never read, so that mirrors
// of large clusters stay small. Of a Node, labels and readiness remain; of
// managed fields, who scales.
func Prune(obj Object) {
	metadata := object(obj, "metadata")
	if obj["kind"] == "Node" {
		pruneNode(obj, metadata)
		return
	}
	entries, _ := metadata["managedFields"].([]any)
	var kept []any
	for _, e := range entries {
		entry, _ := e.(Object)
		if _, owns := object(entry, "fieldsV1", "f:spec")["f:replicas"]; owns {
			kept = append(kept, Object{"manager": entry["manager"], "fieldsV1": Object{"f:spec": Object{"f:replicas": Object{}}}})
		}
	}
	delete(metadata, "managedFields")
	if kept != nil {
		metadata["managedFields"] = kept
	}
}

func pruneNode(obj, metadata Object) {
	n := readNode(obj)
	for key := range metadata {
		if key != "name" && key != "labels" && key != "resourceVersion" && key != "uid" {
			delete(metadata, key)
		}
	}
	delete(obj, "spec")
	status := "False"
	if n.ready {
		status = "True"
	}
	obj["status"] = Object{"conditions": []any{Object{"type": "Ready", "status": status}}}
}

// Print changes with an object's spec, labels, annotations and owners, and not
// with its status.
func Print(obj Object) string {
	m := object(obj, "metadata")
	spec := m["generation"]
	if n, ok := spec.(int64); !ok || n == 0 {
		spec = obj["spec"]
	}
	return sum(spec, m["labels"], m["annotations"], m["ownerReferences"])
}

// node is a Node, read.
type node struct {
	labels map[string]string
	ready  bool
}

// readNode reads a Node; one without the condition Ready counts as ready.
func readNode(obj Object) node {
	n := node{labels: texts(obj, "metadata", "labels"), ready: true}
	conditions, _ := object(obj, "status")["conditions"].([]any)
	for _, o := range conditions {
		if condition, ok := o.(Object); ok && condition["type"] == "Ready" {
			n.ready = condition["status"] == "True"
		}
	}
	return n
}

// RefOf names an object; one without a namespace is in the default one.
func RefOf(obj Object) Ref {
	r := Ref{Kind: text(obj, "kind"), Namespace: text(obj, "metadata", "namespace"), Name: text(obj, "metadata", "name")}
	if r.Kind != "Node" {
		r.Namespace = cmp.Or(r.Namespace, names.DefaultNamespace)
	}
	return r
}
