package kubernetes

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// While a tenth of the nodes is dark, a rollout with the bound of deploy/ updates no
// other node, and it goes on with a bound above the dark ones: docs/install.md says so.
func TestDarkNodesStopARollout(t *testing.T) {
	agent, err := os.ReadFile(filepath.Join(edge.Root(), "deploy/agent.yaml"))
	must(t, err)
	m := regexp.MustCompile(`maxUnavailable: (\d+%)`).FindSubmatch(agent)
	if m == nil {
		t.Fatal("deploy/agent.yaml has no bound")
	}
	a := deploy(t, "rolls")
	kubelet := c.Nodes["c-2"].Kubelet
	kubelet.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { kubelet.Signal(syscall.SIGCONT) })
	wait.Eventually(t, func() error {
		pod, err := c.Kube.CoreV1().Pods("default").Get(patient(t), a.pods["c-2"].Name, metav1.GetOptions{})
		ready := func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue }
		if err == nil && slices.ContainsFunc(pod.Status.Conditions, ready) {
			err = fmt.Errorf("%s is ready, and nobody hears of its node", pod.Name)
		}
		return err
	})

	rolls(t, string(m[1]))
	wait.Eventually(t, func() error {
		if old := a.old(t); old["c-2"] {
			return fmt.Errorf("the pod of the dark node is not deleted; untouched are %v", old)
		}
		return nil
	})
	rolls(t, "11%") // is looked at once more, with what became of the first look
	if old := a.old(t); len(old) != len(c.Nodes)-1 {
		t.Errorf("the rollout goes on though a node of %d is dark: untouched are %v", len(c.Nodes), old)
	}

	rolls(t, "27%") // a sixth is dark, and a tenth more
	wait.Eventually(t, func() error {
		if old := a.old(t); len(old) > 0 {
			return fmt.Errorf("untouched are %v", old)
		}
		return nil
	})
	kubelet.Signal(syscall.SIGCONT)
	if out, err := c.Kubectl("rollout", "status", "daemonset/rolls", "--timeout=5m"); err != nil {
		t.Errorf("the dark node is back: %v: %s", err, out)
	}
}

// rolls gives the DaemonSet the next template and a bound, and waits until its controller
// has done what it does with them at once.
func rolls(t *testing.T, bound string) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":%q}},"template":{"metadata":{"annotations":{"version":"2"}}}}}`, bound)
	ds, err := c.Kube.AppsV1().DaemonSets("default").Patch(patient(t), "rolls", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	must(t, err)
	generation := ds.Generation
	wait.Eventually(t, func() error {
		ds, err := c.Kube.AppsV1().DaemonSets("default").Get(patient(t), "rolls", metav1.GetOptions{})
		if err == nil && ds.Status.ObservedGeneration < generation {
			err = fmt.Errorf("the controller has seen generation %d of %d", ds.Status.ObservedGeneration, generation)
		}
		return err
	})
}

// old are the nodes whose pod is the one of the beginning, and not being deleted.
func (a *app) old(t *testing.T) map[string]bool {
	t.Helper()
	pods, err := c.Pods(patient(t), "default", "app="+a.name)
	must(t, err)
	nodes := map[string]bool{}
	for i := range pods {
		p := &pods[i]
		if first := a.pods[p.Spec.NodeName]; first != nil && p.UID == first.UID && p.DeletionTimestamp == nil {
			nodes[p.Spec.NodeName] = true
		}
	}
	return nodes
}
