package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gridmesh/gridmesh/grid/plan"
	"github.com/gridmesh/gridmesh/kube"
)

const (
	// leaseName is that of the controller's Lease, unless its flags give it another.
	leaseName = "gridmesh-controller"
	// clocks is how far the controller's and this machine's may be apart.
	clocks = time.Minute
)

// leaders are the Leases by which controllers of grids say that they act.
type leaders struct {
	all  bool // a cluster told which there are
	list []coordinationv1.Lease
}

// ask asks a cluster for them. Who may not know them knows nothing of who acts.
func (l *leaders) ask(ctx context.Context, client *kube.Client) {
	found, err := client.Leases.Leases(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + leaseName})
	if err == nil {
		l.all, l.list = true, append(l.list, found.Items...)
	}
}

// read takes those among manifests.
func (l *leaders) read(objects []map[string]any) {
	for _, obj := range objects {
		var lease coordinationv1.Lease
		if obj["kind"] == "Lease" && runtime.DefaultUnstructuredConverter.FromUnstructured(obj, &lease) == nil && lease.Name == leaseName {
			l.list = append(l.list, lease)
		}
	}
}

// none says why no controller acts; "" where one does, or nobody knows.
func (l *leaders) none(now time.Time) (why string) {
	if l.all {
		why = "there is no Lease " + leaseName
	}
	for _, lease := range l.list {
		name, spec := lease.Namespace+"/"+lease.Name, lease.Spec
		switch {
		case spec.HolderIdentity == nil || *spec.HolderIdentity == "":
			why = "nobody holds the Lease " + name
		case spec.RenewTime == nil || spec.LeaseDurationSeconds == nil:
			return "" // as no controller writes it
		case now.Sub(spec.RenewTime.Time) > time.Duration(*spec.LeaseDurationSeconds)*time.Second+clocks:
			why = fmt.Sprintf("the Lease %s was renewed last at %s", name, spec.RenewTime.UTC().Format(time.RFC3339))
		default:
			return ""
		}
	}
	return why
}

// unseen is before why: a controller may act by a Lease of another name, or without one.
const unseen = "no controller is seen to act: "

// noteNobody says that no controller is seen to act. Without a Lease that is said where
// something is left to do.
func (in *gridInput) noteNobody(plans []plan.Plan) {
	why := in.leaders.none(time.Now())
	left := slices.ContainsFunc(plans, func(p plan.Plan) bool { return slices.ContainsFunc(p.Steps, plan.Step.Writes) })
	if why != "" && (left || len(in.leaders.list) > 0) {
		in.note("%s%s; see that gridmesh-controller runs, or, where it goes by another Lease (--leader-elect-resource-name) or by none, see its log", unseen, why)
	}
}

// unanswered is why nothing becomes of a step that is due, where that is known.
func (in *gridInput) unanswered(s plan.Step) string {
	if why := in.leaders.none(time.Now()); s.Writes() && why != "" {
		return unseen + why
	}
	return ""
}
