package outage

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/load"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// Staying are apps whose pods Kubernetes deletes in no cut of that length.
func Staying(t *testing.T, c *cluster.Cluster, cut time.Duration, nodes [2]string) []*App {
	t.Helper()
	kept := Deploy(t, c, "kept", Kept, nodes)
	kept.tolerates(t, -1)
	if cut > Patience {
		t.Logf("the uplink is cut for longer than %s: of what tolerates no outage Kubernetes deletes the pods", Patience)
		return []*App{kept}
	}
	bare := Deploy(t, c, "bare", Bare, nodes)
	bare.tolerates(t, int64(Patience.Seconds()))
	return []*App{kept, bare}
}

// GoneForAWhile: pods that Kubernetes deleted while the uplink was away serve on
// until it is back. Then their kubelets end them, and the unit is dark until
// others run (docs/limits.md says so, and what keeps them).
func (a *App) GoneForAWhile(t *testing.T, from []*netlab.NS, dials *load.Generator, healed time.Time) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
	defer cancel()
	if _, err := a.c.WaitPods(ctx, metav1.NamespaceDefault, "app="+a.Name, len(a.Pods)); err != nil {
		t.Fatal(err)
	}
	for _, ns := range from {
		wait.Eventually(t, func() error { _, err := edge.Ask(ns, "tcp", a.To, load.Timeout); return err })
	}
	list := dials.Stop()
	var before, after []load.Dial
	for _, d := range load.Failed(list) {
		if d.At.Before(healed) {
			before = append(before, d)
		} else {
			after = append(after, d)
		}
	}
	if len(before) > 0 {
		t.Errorf("%d requests to pods that were deleted failed while nobody could tell their kubelets, the first: %v", len(before), before[0].Err)
	}
	if len(after) == 0 {
		t.Fatal("no request to pods that were deleted failed after the heal: docs/limits.md says otherwise")
	}
	first, last := after[0].At, after[0].End()
	for _, d := range after {
		if d.At.Before(first) {
			first = d.At
		}
		if d.End().After(last) {
			last = d.End()
		}
	}
	t.Logf("pods that were deleted meanwhile: of %d requests %d failed, from %s to %s after the heal", len(list), len(after), first.Sub(healed).Round(time.Millisecond), last.Sub(healed).Round(time.Millisecond))
}
