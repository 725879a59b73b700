package kubernetes

import (
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// A grid that is deleted takes its children with it, in the background or
// before it goes itself, or leaves them as they are; a grid of the same name
// takes those up again without a restart.
func TestGridDeletion(t *testing.T) {
	inUnits(t, map[string]string{"a-1": "north", "b-1": "south"})
	p := controller(t)
	applied(t, deploymentGrid("del", "", "1"), "deploymentgrid/del", "deployment/del-north", "deployment/del-south")
	gone := func() error {
		for _, name := range []string{"del-north", "del-south"} {
			if _, err := child(name); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s is still there: %w", name, err)
			}
		}
		return nil
	}
	for _, how := range []string{"background", "foreground"} {
		wait.Eventually(t, func() error { return c.Apply(deploymentGrid("del", "", "1")) })
		allReady(t, "deploymentgrids", "del", 2)
		_, err := c.Kubectl("delete", "--cascade="+how, "--wait=true", "deploymentgrid/del")
		must(t, err)
		took := wait.Eventually(t, gone)
		t.Logf("%s: the children were gone %s after the grid", how, took)
		wait.Holds(t, time.Second, gone) // nobody brings them back
	}

	must(t, c.Apply(deploymentGrid("del", "", "1")))
	allReady(t, "deploymentgrids", "del", 2)
	pods, err := c.WaitPods(patient(t), "default", "app=del", 2)
	must(t, err)
	_, err = c.Kubectl("delete", "--cascade=orphan", "--wait=true", "deploymentgrid/del")
	must(t, err)
	for _, name := range []string{"del-north", "del-south"} {
		wait.Eventually(t, func() error {
			d, err := child(name)
			if err == nil && len(d.OwnerReferences) > 0 {
				err = fmt.Errorf("%s has owners %v", name, d.OwnerReferences)
			}
			return err
		})
	}
	must(t, c.Apply(deploymentGrid("del", "", "1")))
	allReady(t, "deploymentgrids", "del", 2)
	wait.Eventually(t, func() error {
		d, err := child("del-north")
		if err == nil && len(d.OwnerReferences) != 1 {
			err = fmt.Errorf("owners %v", d.OwnerReferences)
		}
		return err
	})
	after, err := c.WaitPods(patient(t), "default", "app=del", 2)
	must(t, err)
	same := map[string]bool{string(pods[0].UID): true, string(pods[1].UID): true}
	for _, pod := range after {
		if !same[string(pod.UID)] {
			t.Errorf("pod %s is new", pod.Name)
		}
	}
	if t.Failed() {
		t.Log(p.Log())
	}
}
