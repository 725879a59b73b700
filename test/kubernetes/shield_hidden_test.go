package kubernetes

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gridmesh/gridmesh/admission/policy"
	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// What who leads says of a node is heard by the controller, though another member writes over it at once.
func TestAVoteIsNotHidden(t *testing.T) {
	clean := func() { unapply(t, policy.Shield()+"---\n"+policy.Votes()+"---\n"+string(policy.NodeTables())) }
	clean()
	t.Cleanup(clean)
	wait.Eventually(t, func() error { return c.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + gridmesh + "}}") })
	const node = "b-1"
	placeInUnits(t, map[string]string{"a-1": "x", "a-2": "x", node: "x"})
	t.Cleanup(func() { placeInUnits(t, map[string]string{"a-1": "", "a-2": "", node: ""}) })
	write := func(verdict, evidence string) {
		t.Helper()
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{names.NodeHealth: verdict, names.Evidence: evidence}}})
		must(t, err)
		_, err = c.Kube.CoreV1().Nodes().Patch(patient(t), node, types.MergePatchType, patch, metav1.PatchOptions{})
		must(t, err)
	}
	leases := c.Kube.CoordinationV1().Leases(gridmesh)
	lease, err := leases.Create(patient(t), leaseOf("x", "a-1"), metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		must(t, leases.Delete(patient(t), lease.Name, metav1.DeleteOptions{}))
		_, err := c.Kubectl("annotate", "node", node, names.NodeHealth+"-", names.Evidence+"-")
		must(t, err)
	})
	write("true", "yes=3 no=0 of=3 by=a-1")
	healthController(t)
	renew := func() {
		t.Helper()
		at := metav1.NowMicro()
		lease.Spec.RenewTime = &at
		lease, err = leases.Update(patient(t), lease, metav1.UpdateOptions{})
		must(t, err)
	}
	wait.Holds(t, 40*time.Second, func() error { renew(); return nil }) // before it keeps nobody by a vote
	const at = " at=2026-01-02T03:04:05Z"
	write("true", "yes=3 no=0 of=3 exact=true cut=true by=a-1"+at)
	write("true", "yes=3 no=0 of=3 exact=true cut=false by=a-2"+at)
	wait.Eventually(t, func() error {
		renew()
		table, err := tables(t).Get(patient(t), names.Shield, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if kept, _, _ := unstructured.NestedStringMap(table.Object, "data"); kept[node] == "" {
			return fmt.Errorf("%v are kept", kept)
		}
		return nil
	})
}
