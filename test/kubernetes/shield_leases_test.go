package kubernetes

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/gridmesh/gridmesh/admission/policy"
	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/health"
	"github.com/gridmesh/gridmesh/kube/typed"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// What a voter is told whose Lease is refused.
const (
	notUnits     = "holds the Leases of units alone"
	notOwnName   = "in the name of the voter's own node"
	notOwnUnit   = "the Lease of its own unit"
	notToOneNode = "with a token that is bound to a node"
	or           = "|" // of two policies that refuse it either may be told
)

// leaseOf is a unit's Lease as a daemon holds it.
func leaseOf(unit, holder string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: health.LeaseName(unit), Namespace: gridmesh, Labels: map[string]string{names.UnitLease: unit}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: ptr.To(int32(15))},
	}
}

// voterOf is a client of gridmesh-health with a token of nodes.
func voterOf(t *testing.T, nodes ...string) kubernetes.Interface {
	t.Helper()
	extra := map[string][]string{}
	if len(nodes) > 0 {
		extra[boundTo] = nodes
	}
	return as(t, healthUser, extra, "system:masters")
}

// rehearseLease rehearses that somebody makes a Lease, and then that he takes one that is there.
func rehearseLease(t *testing.T, by kubernetes.Interface, l *coordinationv1.Lease) (created, updated error) {
	t.Helper()
	leases := by.CoordinationV1().Leases(l.Namespace)
	_, created = leases.Create(patient(t), l, metav1.CreateOptions{DryRun: rehearsed.DryRun})
	before := l.DeepCopy()
	before.Spec.HolderIdentity = ptr.To("somebody")
	there, err := c.Kube.CoordinationV1().Leases(l.Namespace).Create(patient(t), before, metav1.CreateOptions{})
	must(t, err)
	defer func() {
		must(t, c.Kube.CoordinationV1().Leases(l.Namespace).Delete(patient(t), l.Name, metav1.DeleteOptions{}))
	}()
	there.Labels, there.Spec = l.Labels, l.Spec
	_, updated = leases.Update(patient(t), there, rehearsed)
	return created, updated
}

// refusal is all that policies said to a write: the message has one of them.
func refusal(err error) string {
	text := fmt.Sprint(err)
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			text += "\n" + cause.Message
		}
	}
	return text
}

func refusedWith(err error, any string) bool {
	return slices.ContainsFunc(strings.Split(any, or), func(why string) bool { return strings.Contains(refusal(err), why) })
}

// A voter makes and takes the Lease of its own unit, in its own name, and no other.
func TestAVoterHoldsTheLeaseOfItsUnit(t *testing.T) {
	votes(t)
	odd := map[string]string{"c-1": "Shop_7", "c-2": "a..b"}
	all := maps.Clone(units)
	maps.Copy(all, odd)
	parameter(t, names.Units, all)
	wait.Eventually(t, func() error { // until the API server has seen it
		_, err := voterOf(t, "c-2").CoordinationV1().Leases(gridmesh).Create(patient(t), leaseOf("a..b", "c-2"), metav1.CreateOptions{DryRun: rehearsed.DryRun})
		return err
	})
	change := func(l *coordinationv1.Lease, f func(l *coordinationv1.Lease)) *coordinationv1.Lease {
		f(l)
		return l
	}
	for _, tc := range []struct {
		name    string
		nodes   []string
		lease   *coordinationv1.Lease
		refused string
	}{
		{"its unit's", []string{"a-1"}, leaseOf("a", "a-1"), ""},
		{"released", []string{"a-1"}, leaseOf("a", ""), ""},
		{"of an odd unit", []string{"c-1"}, leaseOf("Shop_7", "c-1"), ""},
		{"another unit's", []string{"a-1"}, leaseOf("b", "a-1"), notOwnUnit},
		{"another odd unit's", []string{"c-1"}, leaseOf("SHOP-7", "c-1"), notOwnUnit},
		{"another unit's name", []string{"a-1"}, change(leaseOf("b", "a-1"), func(l *coordinationv1.Lease) { l.Labels[names.UnitLease] = "a" }), notOwnUnit},
		{"another unit's label", []string{"a-1"}, change(leaseOf("a", "a-1"), func(l *coordinationv1.Lease) { l.Labels[names.UnitLease] = "b" }), notOwnUnit},
		{"without a label", []string{"a-1"}, change(leaseOf("a", "a-1"), func(l *coordinationv1.Lease) { l.Labels = nil }), notUnits + or + notOwnUnit},
		{"no unit's", []string{"a-1"}, change(leaseOf("a", "a-1"), func(l *coordinationv1.Lease) { l.Name = "gridmesh-controller-test" }), notUnits + or + notOwnUnit},
		{"in another's name", []string{"a-1"}, leaseOf("a", "a-2"), notOwnName},
		{"of no unit", []string{"b-2"}, leaseOf("b", "b-2"), notOwnUnit},
		{"bound to nothing", nil, leaseOf("a", ""), notToOneNode + or + notOwnUnit},
		{"bound to two nodes", []string{"a-1", "b-1"}, leaseOf("a", "a-1"), notToOneNode + or + notOwnUnit},
	} {
		t.Run(tc.name, func(t *testing.T) {
			created, updated := rehearseLease(t, voterOf(t, tc.nodes...), tc.lease)
			for what, err := range map[string]error{"make": created, "take": updated} {
				if tc.refused == "" && err != nil || tc.refused != "" && !refusedWith(err, tc.refused) {
					t.Errorf("to %s it: %v, want a refusal with %q", what, err, tc.refused)
				}
			}
		})
	}
	if created, updated := rehearseLease(t, asWriter(t, "somebody"), leaseOf("b", "a-1")); created != nil || updated != nil {
		t.Errorf("an administrator: %v, %v", created, updated)
	}
}

// A node that moved to another unit votes there, and where it was no more; so it is with the
// Leases, as soon as the table says so.
func TestAVoterThatMovesLosesItsUnit(t *testing.T) {
	votes(t)
	voter := voterOf(t, "a-1")
	try := func(unit, node string) (lease, verdict error) {
		_, lease = voter.CoordinationV1().Leases(gridmesh).Create(patient(t), leaseOf(unit, "a-1"), metav1.CreateOptions{DryRun: rehearsed.DryRun})
		_, verdict = voter.CoreV1().Nodes().Patch(patient(t), node, types.MergePatchType, []byte(voted("a-1", "false")), metav1.PatchOptions{DryRun: rehearsed.DryRun})
		return lease, verdict
	}
	holds := func(own, node, other, others string) error {
		lease, v := try(own, node)
		noLease, noVote := try(other, others)
		if lease != nil || v != nil || !apierrors.IsInvalid(noLease) || !apierrors.IsInvalid(noVote) {
			return fmt.Errorf("in %s: Lease and vote %s; in %s: %s", own, fmt.Sprint(lease, ", ", v), other, fmt.Sprint(noLease, ", ", noVote))
		}
		return nil
	}
	wait.Eventually(t, func() error { return holds("a", "a-2", "b", "b-1") })
	moved := maps.Clone(units)
	moved["a-1"] = "b"
	parameter(t, names.Units, moved)
	wait.Eventually(t, func() error { return holds("b", "b-1", "a", "a-2") })
}

// A table as large as it may be is stored, and votes are held to it; what that costs other
// writes of Nodes is logged.
func TestALargeTableOfUnits(t *testing.T) {
	policies(t, policy.Votes())
	large, size := maps.Clone(units), 0
	for i := 0; ; i++ {
		node, unit := fmt.Sprintf("a-node-with-a-name-of-forty-letters-%05d", i), fmt.Sprintf("unit-%d", i/10)
		if size += typed.TableRow(node, unit); size > typed.MostTable-1000 {
			break
		}
		large[node] = unit
	}
	start := time.Now()
	parameter(t, names.Units, large)
	t.Logf("%d nodes, %d bytes: written in %s", len(large), size, time.Since(start).Round(time.Millisecond))
	voter := voterOf(t, "a-1")
	rehearse := func(by kubernetes.Interface, node, patch string) error {
		_, err := by.CoreV1().Nodes().Patch(patient(t), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: rehearsed.DryRun})
		return err
	}
	wait.Eventually(t, func() error {
		if err := rehearse(voter, "b-1", voted("a-1", "false")); !apierrors.IsInvalid(err) {
			return errors.Join(errors.New("not refused yet"), err)
		}
		return nil
	})
	admin := asWriter(t, "somebody")
	t.Logf("a vote:                       %s", measured(t, func() error { return rehearse(voter, "a-2", voted("a-1", "false")) }))
	t.Logf("somebody's write of a Node:   %s", measured(t, func() error { return rehearse(admin, "a-2", set("annotations", "x", "y")) }))
	unapply(t, policy.Votes())
	wait.Eventually(t, func() error { return rehearse(voter, "b-1", voted("a-1", "false")) })
	t.Logf("the same without policies:    %s", measured(t, func() error { return rehearse(admin, "a-2", set("annotations", "x", "y")) }))
}
