package kubernetes

import (
	"fmt"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// A grid that is deleted and made anew while the controller manager hears of
// neither has its children: Kubernetes' garbage collector lists grids anew,
// takes the second for the first, and passes over what that left in the way.
func TestGridMadeAnewUnheard(t *testing.T) {
	inUnits(t, map[string]string{"a-1": "north"})
	p := controller(t, outlastsAnOutage...)
	applied(t, deploymentGrid("anew", "", "1"), "deploymentgrid/anew", "deployment/anew-north")
	allReady(t, "deploymentgrids", "anew", 1)

	manager := c.ControllerManager()
	manager.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { manager.Signal(syscall.SIGCONT) })
	c.StopAPIServer() // its watches break, and the next server knows of no event before itself
	must(t, c.StartAPIServer(patient(t)))
	wait.Eventually(t, func() error {
		_, err := c.Kubectl("delete", "--ignore-not-found", "--cascade=background", "--wait=true", "deploymentgrid/anew")
		return err
	})
	wait.Eventually(t, func() error { return c.Apply(deploymentGrid("anew", "", "2")) })
	manager.Signal(syscall.SIGCONT)

	grid, err := grids(t, "deploymentgrids").Get(patient(t), "anew", metav1.GetOptions{})
	must(t, err)
	took := wait.Eventually(t, func() error {
		d, err := child("anew-north")
		if err == nil && !metav1.IsControlledBy(d, grid) {
			err = fmt.Errorf("anew-north is of %v, and the grid is %s\n%s", d.OwnerReferences, grid.GetUID(), p.Log())
		}
		return err
	})
	t.Logf("the grid had its child after %s", took)
	allReady(t, "deploymentgrids", "anew", 1)
}
