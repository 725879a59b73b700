package kubernetes

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// A grid whose status or labels are written between the reading and the writing of a
// rollback goes back all the same. One whose spec was changed stays as it was made.
func TestARollbackBesideOthers(t *testing.T) {
	inUnits(t, waveUnits)
	kubeconfig, err := c.ControllerKubeconfig()
	must(t, err)
	controllerAt(t, kubeconfig)
	applied(t, deploymentGrid("back", "", "1"), "deploymentgrid/back")
	allReady(t, "deploymentgrids", "back", 6)
	must(t, c.Apply(deploymentGrid("back", "", "2")))
	allReady(t, "deploymentgrids", "back", 6)

	var meddle atomic.Pointer[[]string]
	u := &faultProxy{calm: true, before: func(req *http.Request) {
		if req.Method != http.MethodPatch || !strings.HasSuffix(req.URL.Path, "/deploymentgrids/back") {
			return
		}
		if args := meddle.Swap(nil); args != nil {
			if out, err := c.Kubectl(*args...); err != nil {
				t.Errorf("kubectl %v: %v: %s", *args, err, out)
			}
		}
	}}
	beside := u.start(t, c.Kubeconfig)
	meddle.Store(&[]string{"annotate", "dg", "back", "example.com/seen=1"})
	if out, err := inspectBy(t, beside, "grid", "rollback", "back"); err != nil || !strings.Contains(out, "goes back from revision 2 to revision 1") || meddle.Load() != nil {
		t.Errorf("beside an annotation: %v: %s", err, out)
	}
	allReady(t, "deploymentgrids", "back", 6)
	meddle.Store(&[]string{"patch", "dg", "back", "--type=merge", "-p", `{"spec": {"rollout": {"maxUnits": 2}}}`})
	out, err := inspectBy(t, beside, "grid", "rollback", "back")
	if err == nil || !strings.Contains(out, "changed while it was to be rolled back") || meddle.Load() != nil {
		t.Errorf("beside a change: %v: %s", err, out)
	}
	if out, err := c.Kubectl("get", "dg", "back", "-o", "jsonpath={.spec.rollout.maxUnits} {.spec.template.template.spec.containers[0].env[0].value}"); err != nil || out != "2 1" {
		t.Errorf("the grid has %q, %v; want what was there, with the change", out, err)
	}
}
