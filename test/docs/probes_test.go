package docs

import (
	"os"
	"path/filepath"
	"testing"
)

// What hangs on a node is started again, and what serves nobody is not ready: of each program of
// deploy/ that answers pods the kubelet asks both, and restarts none that only begins slowly.
func TestWhatHangsIsStartedAgain(t *testing.T) {
	asked := map[string]bool{}
	for _, file := range []string{"agent.yaml", "envoy.yaml", "dns.yaml"} {
		text, err := os.ReadFile(filepath.Join("../../deploy", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range decode(t, string(text)) {
			if o.Kind != "DaemonSet" {
				continue
			}
			for _, c := range o.Spec.Template.Spec.Containers {
				live, ready := c.LivenessProbe, c.ReadinessProbe
				asked[c.Name] = true
				if live == nil || ready == nil || live.HTTPGet == nil || ready.HTTPGet == nil {
					t.Errorf("%s: the kubelet does not ask container %s whether it is live and ready", file, c.Name)
					continue
				}
				if patience := live.InitialDelaySeconds + max(1, live.PeriodSeconds)*max(1, live.FailureThreshold); patience < 20 {
					t.Errorf("%s: container %s is restarted where it does not answer for %d s", file, c.Name, patience)
				}
			}
		}
	}
	for _, name := range []string{"agent", "envoy", "dns"} {
		if !asked[name] {
			t.Errorf("no container is called %s: %v", name, asked)
		}
	}
}
