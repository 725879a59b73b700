package soak

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	apiv1 "github.com/gridmesh/gridmesh/api/v1"
	"github.com/gridmesh/gridmesh/test/soak/script"
)

// settledWorld is a cluster at rest, of one unit with one node and a grid of
// two replicas.
func settledWorld() (script.World, *objects) {
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Generation: 3} }
	o := &objects{
		grids: []deploymentGrid{{ObjectMeta: named("g0")}}, serviceGrid: []serviceGrid{{ObjectMeta: named("g0")}},
		deployments: []appsv1.Deployment{{
			ObjectMeta: named("g0-a"), Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](2)},
			Status: appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2},
		}},
		nodes: []corev1.Node{{ObjectMeta: named("a-1")}},
	}
	g := &o.grids[0]
	g.UID, o.serviceGrid[0].UID = "dg", "sg"
	o.deployments[0].OwnerReferences = []metav1.OwnerReference{{UID: "dg", Controller: ptr.To(true)}}
	g.Spec.Template.Replicas = 2
	g.Spec.Template.Template, g.Spec.TemplatePool = podsOf("v1"), map[string]gridTemplate{canaryTemplate: {Replicas: 2, Template: podsOf("v2")}}
	g.Status.ObservedGeneration, g.Status.Units, g.Status.ReadyUnits, g.Status.UpdatedUnits = 3, 1, 1, 1
	g.Status.Revision = "r1"
	g.Status.Conditions = []metav1.Condition{{Type: apiv1.Valid, Status: metav1.ConditionTrue}, {Type: apiv1.Progressing, Status: metav1.ConditionTrue, Reason: "Complete"}}
	o.deployments[0].Spec.Template = podsOf("v1")
	o.serviceGrid[0].Status.ObservedGeneration = 3
	o.deployments[0].UID = "d"
	o.replicaSets = []appsv1.ReplicaSet{{ObjectMeta: metav1.ObjectMeta{UID: "set", OwnerReferences: []metav1.OwnerReference{{UID: "d", Controller: ptr.To(true)}}}}}
	for _, p := range []struct{ name, app, ip string }{{"p0", "g0", "10.0.0.1"}, {"p1", "g0", "10.0.0.2"}, {"p2", "steady", "10.0.0.3"}} {
		pod := corev1.Pod{ObjectMeta: named(p.name)}
		pod.Labels = map[string]string{"app": p.app}
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", UID: "set", Controller: ptr.To(true)}}
		pod.Status.PodIP, pod.Status.Conditions = p.ip, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		o.pods = append(o.pods, pod)
	}
	for _, s := range []struct {
		name, app string
		ips       []string
	}{{"g0-svc", "g0", []string{"10.0.0.2", "10.0.0.1"}}, {"steady", "steady", []string{"10.0.0.3"}}} {
		svc := corev1.Service{ObjectMeta: named(s.name), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": s.app}}}
		slice := discoveryv1.EndpointSlice{ObjectMeta: named(s.name + "-x"), AddressType: discoveryv1.AddressTypeIPv4}
		slice.Labels = map[string]string{discoveryv1.LabelServiceName: s.name, discoveryv1.LabelManagedBy: sliceController}
		for _, ip := range s.ips {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}})
		}
		if s.app != "steady" {
			svc.OwnerReferences = []metav1.OwnerReference{{UID: "sg", Controller: ptr.To(true)}}
		}
		o.services, o.slices = append(o.services, svc), append(o.slices, slice)
	}
	return script.World{Units: []script.Unit{{Name: "a", Nodes: []string{"a-1"}}}}, o
}

// podsOf is a template of a version.
func podsOf(version string) (t corev1.PodTemplateSpec) {
	t.Spec.Containers = []corev1.Container{{Name: "app", Env: []corev1.EnvVar{{Name: versionName, Value: version}}}}
	return t
}

// Whatever is still on its way, from a grid to the last endpoint, is named.
func TestSettled(t *testing.T) {
	w, o := settledWorld()
	if err := o.settled(w); err != nil {
		t.Fatal(err)
	}
	now := metav1.Now()
	for what, tc := range map[string]struct {
		do   func(o *objects)
		want string
	}{
		"a grid that was edited":       {func(o *objects) { o.grids[0].Generation = 4 }, "grid g0 of generation 4"},
		"a grid that goes":             {func(o *objects) { o.grids[0].DeletionTimestamp = &now }, "grid g0"},
		"a unit that is not ready":     {func(o *objects) { o.grids[0].Status.ReadyUnits = 0 }, "grid g0"},
		"a unit that is held":          {func(o *objects) { o.grids[0].Status.HeldUnits = 1 }, "grid g0"},
		"a grid that went":             {func(o *objects) { o.grids = nil }, "Deployment g0-a"},
		"a Deployment that is missing": {func(o *objects) { o.deployments = nil }, "no Deployments [g0-a]"},
		"a Deployment that is scaled":  {func(o *objects) { o.deployments[0].Status.AvailableReplicas = 1 }, "Deployment g0-a"},
		"a unit of another version":    {func(o *objects) { o.deployments[0].Spec.Template = podsOf("v0") }, "Deployment g0-a is of v0"},
		"a unit of another template":   {func(o *objects) { o.grids[0].Spec.Templates = map[string]string{"a": canaryTemplate} }, "its unit's template of v2"},
		"a rollout that is paused":     {func(o *objects) { o.grids[0].Spec.Rollout = &apiv1.Rollout{Paused: true} }, "rollout of grid g0 is paused"},
		"a rollout that stopped":       {func(o *objects) { o.grids[0].Status.Conditions[1].Reason = "Stopped" }, "grid g0"},
		"a grid that is refused":       {func(o *objects) { o.grids[0].Status.Conditions[0].Status = metav1.ConditionFalse }, "grid g0"},
		"a unit that failed":           {func(o *objects) { o.grids[0].Status.Rollout = &apiv1.RolloutStatus{Failed: []string{"a"}} }, "grid g0"},
		"a unit that is gone":          {func(o *objects) { o.grids[0].Status.Gone = []string{"a"} }, "grid g0"},
		"an earlier grid's child":      {func(o *objects) { o.grids[0].UID = "another" }, "Deployment g0-a is an earlier grid's"},
		"a pod of no ReplicaSet": {func(o *objects) {
			o.pods[0].OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", UID: "rs", Controller: ptr.To(true)}}
		}, "pod p0 is of no Deployment"},
		"a pod of a Deployment before": {func(o *objects) {
			o.pods[0].OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", UID: "rs", Controller: ptr.To(true)}}
			o.replicaSets = []appsv1.ReplicaSet{{ObjectMeta: metav1.ObjectMeta{UID: "rs", OwnerReferences: []metav1.OwnerReference{{UID: "before", Controller: ptr.To(true)}}}}}
		}, "pod p0 is of no Deployment"},
		"a pod of no ReplicaSet that goes": {func(o *objects) {
			o.pods[0].OwnerReferences[0].UID, o.pods[0].DeletionTimestamp = "rs", &now
		}, "pod p0 is of no Deployment that there is, and goes"},
		"a pod of no ReplicaSet that is not ready": {func(o *objects) {
			o.pods[0].OwnerReferences[0].UID, o.pods[0].Status.Conditions = "rs", nil
		}, "pod p0 is of no Deployment"},
		"a pod of a ReplicaSet that goes": {func(o *objects) {
			o.replicaSets[0].DeletionTimestamp, o.replicaSets[0].OwnerReferences[0].UID = &now, "before"
		}, "pod p0 is of no Deployment"},
		"a pod of no ReplicaSet, after one that goes": {func(o *objects) {
			o.pods[0].DeletionTimestamp, o.pods[1].OwnerReferences[0].UID = &now, "rs"
		}, "pod p1 is of no Deployment"},
		"a pod that goes":             {func(o *objects) { o.pods[0].DeletionTimestamp = &now }, "pod p0"},
		"a pod that is not ready":     {func(o *objects) { o.pods[0].Status.Conditions = nil }, "pod p0"},
		"a pod too many":              {func(o *objects) { o.pods = append(o.pods, o.pods[0]) }, "of app g0 there are -1"},
		"a pod of a grid that went":   {func(o *objects) { o.grids, o.deployments = nil, nil }, "pod p0 is of no Deployment"},
		"a steady pod too few":        {func(o *objects) { o.pods = o.pods[:2] }, "of app steady there are 1"},
		"a ServiceGrid not looked at": {func(o *objects) { o.serviceGrid[0].Generation = 4 }, "ServiceGrid g0"},
		"a ServiceGrid that went":     {func(o *objects) { o.serviceGrid = nil }, "g0-svc is of no grid"},
		"an earlier grid's Service":   {func(o *objects) { o.serviceGrid[0].UID = "another" }, "Service g0-svc is an earlier grid's"},
		"a Service that is missing":   {func(o *objects) { o.services = o.services[1:] }, "no Services [g0-svc]"},
		"a slice that is missing":     {func(o *objects) { o.slices = o.slices[1:] }, "no slice of Service g0-svc has [10.0.0.1 10.0.0.2]"},
		"a slice without an endpoint": {func(o *objects) { o.slices[0].Endpoints = o.slices[0].Endpoints[:1] }, "has [10.0.0.1]"},
		"an endpoint of no pod":       {func(o *objects) { o.slices[0].Endpoints[0].Addresses[0] = "10.0.0.9" }, "slice g0-svc-x has 10.0.0.9"},
		"an endpoint that is unready": {func(o *objects) { o.slices[0].Endpoints[0].Conditions.Ready = ptr.To(false) }, "slice g0-svc-x"},
		"a slice of no Service":       {func(o *objects) { o.services[1].Name = "other" }, "slice steady-x is of Service steady"},
	} {
		_, o := settledWorld()
		tc.do(o)
		if err := o.settled(w); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", what, err, tc.want)
		}
	}
}

// What came and what went between two readings is a move, and nothing else is.
func TestExactly(t *testing.T) {
	was := reading{"rules": {"r1", "r2"}, "files": {"f"}}
	if got := exactly(was, was); len(got) > 0 {
		t.Errorf("nothing moved, and it says %q", got)
	}
	if got := exactly(was, reading{"rules": {"r2", "r3"}, "files": {"f"}}); len(got) != 2 {
		t.Errorf("a rule went and another came, and it says %q", got)
	}
	if got := unlikeBefore(nil, map[string]*ended{}, nil, nil); len(got) == 0 {
		t.Error("what was read once is taken to be at rest")
	}
}

func TestCrash(t *testing.T) {
	for log, want := range map[string]string{
		"": "", "level=INFO msg=\"healthy panic threshold\"": "",
		"a line\npanic: nil map\n\ngoroutine 1":   "panic: nil map\n\ngoroutine 1",
		"==\nWARNING: DATA RACE\nWrite at 0x0":    "WARNING: DATA RACE\nWrite at 0x0",
		"[critical] Caught Segmentation fault, x": "Caught Segmentation fault, x",
	} {
		if got := crash(log); got != want {
			t.Errorf("of %q: %q, want %q", log, got, want)
		}
	}
}

func TestLastLines(t *testing.T) {
	for log, want := range map[string]string{"": "", "a\nb\n": "a\nb\n", "first\nsecond\nx\n": "...\nsecond\nx\n", "a line without an end": "...\nthout an end"} {
		if got := lastLines(log, 12); got != want {
			t.Errorf("of %q: %q, want %q", log, got, want)
		}
	}
}

// Temporary files are counted apart, and nothing that only looks like one is.
func TestTemporary(t *testing.T) {
	for name, want := range map[string]bool{"state/.state.tmp-123": true, ".dns.v1.tmp-9": true, "state/state": false, "state/state.bad": false, "state/tmp-1": false} {
		if temporary.MatchString(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}
