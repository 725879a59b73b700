package real

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// What deploy/ gives Envoy of its rights, and no probes.
const envoyPod = `
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {app: envoys-image}}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  tolerations: [{operator: Exists}]
  containers:
  - name: envoy
    image: envoyproxy/envoy:v1.40.0
    COMMAND
    args: [--version]
    securityContext:
      runAsUser: 0
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL], add: [NET_ADMIN, NET_BIND_SERVICE]}
`

// The image stands for the published one: its entrypoint wants to be another
// user, and cannot with the rights of deploy/. The program itself can.
func TestEnvoysImageBehavesAsPublished(t *testing.T) {
	needReal(t)
	t.Cleanup(func() {
		_, err := c.Kubectl("delete", "pod", "-l", "app=envoys-image")
		must(t, err)
	})
	for name, tc := range map[string]struct {
		command string
		phase   corev1.PodPhase
		says    string
	}{
		"entrypoint": {"", corev1.PodFailed, "become user 101"},
		"program":    {"command: [envoy]", corev1.PodSucceeded, "version:"},
	} {
		must(t, c.Apply(strings.NewReplacer("NAME", name, "COMMAND", tc.command).Replace(envoyPod)))
		var log string
		wait.Eventually(t, func() error {
			p, err := c.Kube.CoreV1().Pods("default").Get(patient(t), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if log, err = c.Kubectl("logs", name); err != nil {
				return fmt.Errorf("%s: %s: %w: %s", name, p.Status.Phase, err, log)
			}
			if p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded {
				return fmt.Errorf("%s is %s", name, p.Status.Phase)
			}
			if p.Status.Phase != tc.phase || !strings.Contains(log, tc.says) {
				t.Fatalf("%s is %s and said %q", name, p.Status.Phase, log)
			}
			return nil
		})
		t.Logf("%s: %s: %s", name, tc.phase, strings.TrimSpace(log))
	}
}
