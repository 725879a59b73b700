package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiv1 "github.com/gridmesh/gridmesh/api/v1"
	"github.com/gridmesh/gridmesh/convert"
	"github.com/gridmesh/gridmesh/test/soak/script"
)

// objects are what the API server has of everything that a run changes.
type objects struct {
	grids       []deploymentGrid
	serviceGrid []serviceGrid
	deployments []appsv1.Deployment
	replicaSets []appsv1.ReplicaSet
	pods        []corev1.Pod
	services    []corev1.Service
	slices      []discoveryv1.EndpointSlice
	nodes       []corev1.Node
}

// deploymentGrid is what a DeploymentGrid says of its own state.
type deploymentGrid struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Template     gridTemplate            `json:"template"`
		TemplatePool map[string]gridTemplate `json:"templatePool"`
		Templates    map[string]string       `json:"templates"`
		Rollout      *apiv1.Rollout          `json:"rollout"`
	} `json:"spec"`
	Status apiv1.WorkloadGridStatus `json:"status"`
}

type gridTemplate struct {
	Replicas int32                  `json:"replicas"`
	Template corev1.PodTemplateSpec `json:"template"`
}

type serviceGrid struct {
	metav1.ObjectMeta `json:"metadata"`

	Status apiv1.ServiceGridStatus `json:"status"`
}

// objects asks the API server.
func (s *Soak) objects(ctx context.Context) (*objects, error) {
	o := &objects{}
	err := errors.Join(
		ask(ctx, s, "/apis/superedge.io/v1/namespaces/default/deploymentgrids", &o.grids),
		ask(ctx, s, "/apis/superedge.io/v1/namespaces/default/servicegrids", &o.serviceGrid),
		ask(ctx, s, "/apis/apps/v1/namespaces/default/deployments", &o.deployments),
		ask(ctx, s, "/apis/apps/v1/namespaces/default/replicasets", &o.replicaSets),
		ask(ctx, s, "/api/v1/namespaces/default/pods", &o.pods),
		ask(ctx, s, "/api/v1/namespaces/default/services", &o.services),
		ask(ctx, s, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &o.slices),
		ask(ctx, s, "/api/v1/nodes", &o.nodes),
	)
	if err != nil {
		return nil, err
	}
	return o, nil
}

func ask[T any](ctx context.Context, s *Soak, path string, into *[]T) error {
	data, err := s.c.Kube.Discovery().RESTClient().Get().AbsPath(path).DoRaw(ctx)
	if err != nil {
		return err
	}
	var answer struct{ Items []T }
	if err := json.Unmarshal(data, &answer); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	*into = answer.Items
	return nil
}

// settled reports what is still on its way: what others make of what steps
// wrote, from the grids over their workloads, pods and Services to the slices.
func (o *objects) settled(w script.World) error {
	return errors.Join(o.workloads(w), o.podsAreThere(w), o.theirServices(), o.theirSlices())
}

// workloads reports what grids and their Deployments are not yet.
func (o *objects) workloads(w script.World) error {
	type unit struct {
		grid     *metav1.ObjectMeta
		replicas int32
		version  string
	}
	want := map[string]unit{} // by Deployment
	for i := range o.grids {
		g := &o.grids[i]
		if err := g.rolledOut(len(w.Units)); err != nil {
			return err
		}
		for _, u := range w.Units {
			t := g.templateOf(u.Name)
			want[g.Name+"-"+u.Name] = unit{&g.ObjectMeta, t.Replicas, versionOf(&t.Template)}
		}
	}
	for i := range o.deployments {
		d := &o.deployments[i]
		of, wanted := want[d.Name]
		delete(want, d.Name)
		n, st := of.replicas, &d.Status
		if wanted && !metav1.IsControlledBy(d, of.grid) {
			return fmt.Errorf("the Deployment %s is an earlier grid's, and not %s's of UID %s", d.Name, of.grid.Name, of.grid.UID)
		}
		if !wanted || d.DeletionTimestamp != nil || d.Spec.Replicas == nil || *d.Spec.Replicas != n || st.ObservedGeneration != d.Generation ||
			st.Replicas != n || st.UpdatedReplicas != n || st.AvailableReplicas != n {
			return fmt.Errorf("the Deployment %s of generation %d says of %d wanted pods: %s", d.Name, d.Generation, n, asJSON(st))
		}
		if is := versionOf(&d.Spec.Template); is != of.version {
			return fmt.Errorf("the Deployment %s is of %s, and its unit's template of %s", d.Name, is, of.version)
		}
	}
	if len(want) > 0 {
		return fmt.Errorf("there are no Deployments %s", slices.Sorted(maps.Keys(want)))
	}
	return nil
}

// podsAreThere reports which pods are missing, too many, or not ready.
func (o *objects) podsAreThere(w script.World) error {
	want := map[string]int{"steady": len(w.Nodes())}
	for i := range o.grids {
		want[o.grids[i].Name] = len(w.Units) * int(o.grids[i].Spec.Template.Replicas)
	}
	for i := range o.pods { // first, for others may wait for what is left
		if left := o.leftBehind(&o.pods[i]); left != nil {
			return left
		}
	}
	for i := range o.pods {
		p := &o.pods[i]
		if p.DeletionTimestamp != nil || !podReady(p) {
			return fmt.Errorf("pod %s is not ready, or goes", p.Name)
		}
		want[p.Labels["app"]]--
	}
	for app, n := range want {
		if n != 0 {
			return fmt.Errorf("of app %s there are %d pods less than there should be", app, n)
		}
	}
	return nil
}

// leftBehind is a pod of a ReplicaSet, or that of a Deployment, which is gone: Kubernetes'
// garbage collector passed over it, or nobody ends its deletion. nil: it is neither.
func (o *objects) leftBehind(p *corev1.Pod) *orphan {
	of := metav1.GetControllerOf(p)
	if of == nil || of.Kind != "ReplicaSet" {
		return nil
	}
	left := &orphan{pod: p.Name, goes: p.DeletionTimestamp != nil}
	for i := range o.replicaSets {
		rs := &o.replicaSets[i]
		if rs.UID != of.UID {
			continue
		}
		by := metav1.GetControllerOf(rs)
		if by == nil || slices.ContainsFunc(o.deployments, func(d appsv1.Deployment) bool { return d.UID == by.UID }) {
			return nil
		}
		if rs.DeletionTimestamp == nil {
			left.set = rs.Name
		}
	}
	return left
}

func podReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// theirServices reports which Services of grids are missing or left over.
func (o *objects) theirServices() error {
	want := map[string]*metav1.ObjectMeta{} // its grid
	for i := range o.serviceGrid {
		g := &o.serviceGrid[i]
		if g.DeletionTimestamp != nil || g.Status.ObservedGeneration != g.Generation {
			return fmt.Errorf("the ServiceGrid %s of generation %d says %s", g.Name, g.Generation, asJSON(g.Status))
		}
		want[g.Name+"-svc"] = &g.ObjectMeta
	}
	for i := range o.services {
		svc := &o.services[i]
		switch grid := want[svc.Name]; {
		case !strings.HasSuffix(svc.Name, "-svc"):
		case svc.DeletionTimestamp != nil || grid == nil:
			return fmt.Errorf("the Service %s is of no grid", svc.Name)
		case !metav1.IsControlledBy(svc, grid):
			return fmt.Errorf("the Service %s is an earlier grid's, and not %s's of UID %s", svc.Name, grid.Name, grid.UID)
		}
		delete(want, svc.Name)
	}
	if len(want) > 0 {
		return fmt.Errorf("there are no Services %s", slices.Sorted(maps.Keys(want)))
	}
	return nil
}

// sliceController writes the slices of Services with a selector.
const sliceController = "endpointslice-controller.k8s.io"

// theirSlices reports which slices do not have the pods of their Service yet,
// all of them ready.
func (o *objects) theirSlices() error {
	want := map[string]map[string]bool{} // addresses by Service
	for i := range o.services {
		svc := &o.services[i]
		if len(svc.Spec.Selector) == 0 {
			continue
		}
		addrs := map[string]bool{}
		for j := range o.pods {
			if p := &o.pods[j]; p.Labels["app"] == svc.Spec.Selector["app"] {
				addrs[p.Status.PodIP] = true
			}
		}
		want[svc.Name] = addrs
	}
	for i := range o.slices {
		slice := &o.slices[i]
		service := slice.Labels[discoveryv1.LabelServiceName]
		if slice.Labels[discoveryv1.LabelManagedBy] != sliceController || slice.AddressType != discoveryv1.AddressTypeIPv4 {
			continue
		}
		addrs, ok := want[service]
		if !ok {
			return fmt.Errorf("slice %s is of Service %s, which is not there", slice.Name, service)
		}
		for _, e := range slice.Endpoints {
			addr := e.Addresses[0]
			if !addrs[addr] || e.Conditions.Ready == nil || !*e.Conditions.Ready {
				return &behind{service, fmt.Sprintf("slice %s has %s, which is no ready pod of Service %s", slice.Name, addr, service)}
			}
			delete(addrs, addr)
		}
	}
	for service, addrs := range want {
		if len(addrs) > 0 {
			return &behind{service, fmt.Sprintf("no slice of Service %s has %s", service, slices.Sorted(maps.Keys(addrs)))}
		}
	}
	return nil
}

// lines are what objects say, as far as nodes go by it: two lists of lines
// that are the same lead to the same.
func (o *objects) lines() (lines []string) {
	for i := range o.services {
		lines = append(lines, "service "+asJSON(convert.Service(&o.services[i])))
	}
	for i := range o.slices {
		lines = append(lines, "slice "+asJSON(convert.Slice(&o.slices[i])))
	}
	for i := range o.nodes {
		lines = append(lines, fmt.Sprintf("node %s %v", o.nodes[i].Name, o.nodes[i].Labels))
	}
	for i := range o.pods {
		p := &o.pods[i]
		lines = append(lines, fmt.Sprintf("pod %s %s on %s", p.Name, p.Status.PodIP, p.Spec.NodeName))
	}
	slices.Sort(lines)
	return lines
}

// heard reports what our own watches have not told of yet: agents are held
// against these.
func (s *Soak) heard(o *objects) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	late := func(name, version string) error {
		if v, err := strconv.ParseUint(version, 10, 64); err == nil && s.newest[name] < v {
			return fmt.Errorf("of %s it was not heard yet", name)
		}
		return nil
	}
	var errs []error
	for i := range o.services {
		errs = append(errs, late(nameOf(&o.services[i], &o.services[i].ObjectMeta), o.services[i].ResourceVersion))
	}
	for i := range o.slices {
		errs = append(errs, late(nameOf(&o.slices[i], &o.slices[i].ObjectMeta), o.slices[i].ResourceVersion))
	}
	return errors.Join(errs...)
}
