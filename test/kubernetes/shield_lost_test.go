package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/admission/mutate"
	"github.com/gridmesh/gridmesh/admission/policy"
	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// evicting reports whether a node has the taint that evicts pods, and the one that keeps new
// ones away.
func evicting(n *corev1.Node) (noExecute, noSchedule bool) {
	has := func(effect corev1.TaintEffect) bool {
		return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnreachable && t.Effect == effect })
	}
	return has(corev1.TaintEffectNoExecute), has(corev1.TaintEffectNoSchedule)
}

// readiness is a pod's condition Ready.
func readiness(p *corev1.Pod) corev1.ConditionStatus {
	for _, cond := range p.Status.Conditions {
		if cond.Type == corev1.PodReady {
			return cond.Status
		}
	}
	return ""
}

// standing is what the cloud says of the pods of an app on a node: whether each is ready, and in its slices.
func (a *app) standing(ctx context.Context, node string) (ready bool, up, down int, err error) {
	pod, err := c.Kube.CoreV1().Pods("default").Get(ctx, a.pods[node].Name, metav1.GetOptions{})
	if err != nil {
		return false, 0, 0, err
	}
	slices, err := c.Kube.DiscoveryV1().EndpointSlices("default").List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + a.name})
	if err != nil {
		return false, 0, 0, err
	}
	for _, s := range slices.Items {
		for _, e := range s.Endpoints {
			switch {
			case e.NodeName == nil || *e.NodeName != node:
			case *e.Conditions.Ready && *e.Conditions.Serving:
				up++
			default:
				down++
			}
		}
	}
	return readiness(pod) == corev1.ConditionTrue, up, down, nil
}

// markTold reports whether the controller manager says that it marked a pod.
func markTold(ctx context.Context, pod string) (bool, error) {
	list, err := c.Kube.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "reason=NodeNotReady,involvedObject.name=" + pod})
	return err == nil && len(list.Items) > 0, err
}

// rehearseMark fails where the controller manager's mark of a pod would be stored.
func rehearseMark(t *testing.T, pod *corev1.Pod) error {
	t.Helper()
	mark := pod.DeepCopy()
	for i := range mark.Status.Conditions {
		if cond := &mark.Status.Conditions[i]; cond.Type == corev1.PodReady {
			cond.Status, cond.LastTransitionTime = corev1.ConditionFalse, metav1.Now()
		}
	}
	got, err := asWriter(t, mutate.Writers(mutate.Pods)[1]).CoreV1().Pods(pod.Namespace).UpdateStatus(patient(t), mark, rehearsed)
	if err == nil && readiness(got) != corev1.ConditionTrue {
		err = errors.New("the shield is not in force")
	}
	return err
}

// Two nodes fall silent, one of them shielded: the real controller manager taints the other and takes its pods out of their Services,
// and the shielded one has all that stays, at the cost of no write. Once the shield goes, it is evicted as well.
func TestALostNodeIsShielded(t *testing.T) {
	beside(t, "a") // and a node of b, which nobody else beside changes
	policies(t, policy.Shield())
	a := deploy(t, "shielded")
	const kept, lost = "a-2", "b-2"
	ctx := patient(t)
	parameter(t, names.Shield, map[string]string{kept: inAnHour()})
	before, err := c.Kube.CoreV1().Pods("default").Get(ctx, a.pods[kept].Name, metav1.GetOptions{})
	must(t, err)
	wait.Eventually(t, func() error { return rehearseMark(t, before) })
	t.Cleanup(func() {
		for _, name := range []string{kept, lost} {
			c.Nodes[name].Kubelet.Signal(syscall.SIGCONT)
		}
		wait.Eventually(t, func() error { return c.NodesReady(patient(t)) })
	})
	for _, name := range []string{kept, lost} {
		c.Nodes[name].Kubelet.Signal(syscall.SIGSTOP)
	}
	node := func(name string) *corev1.Node {
		n, err := c.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		must(t, err)
		return n
	}
	wait.Eventually(t, func() error {
		ready, _, down, err := a.standing(ctx, lost)
		noExecute, noSchedule := evicting(node(lost))
		if err != nil || ready || down != 2 || !noExecute || !noSchedule {
			return errors.Join(err, fmt.Errorf("%s: its pod ready %v, %d of its endpoints down, NoExecute %v, NoSchedule %v", lost, ready, down, noExecute, noSchedule))
		}
		marked, err := markTold(ctx, a.pods[kept].Name)
		if _, noSchedule := evicting(node(kept)); err == nil && (!marked || !noSchedule) {
			err = fmt.Errorf("%s: its pod was marked %v, NoSchedule %v", kept, marked, noSchedule)
		}
		return err
	})
	silent := node(kept)
	// The manager tries one node each 10 s: by then it has tried this one.
	wait.Holds(t, 25*time.Second, func() error {
		ready, up, down, err := a.standing(ctx, kept)
		if noExecute, _ := evicting(node(kept)); err != nil || !ready || up != 2 || down != 0 || noExecute {
			return errors.Join(err, fmt.Errorf("its pod ready %v, endpoints up %d, down %d, NoExecute %v", ready, up, down, noExecute))
		}
		return nil
	})
	after, err := c.Kube.CoreV1().Pods("default").Get(ctx, before.Name, metav1.GetOptions{})
	must(t, err)
	if before.ResourceVersion != after.ResourceVersion {
		t.Errorf("the pod that was marked was written: %s, then %s\n%v\n%v", before.ResourceVersion, after.ResourceVersion, before.ManagedFields, after.ManagedFields)
	}
	if n := node(kept); n.ResourceVersion != silent.ResourceVersion {
		t.Errorf("the node that was tainted was written: %s, then %s", silent.ResourceVersion, n.ResourceVersion)
	}
	parameter(t, names.Shield, map[string]string{})
	wait.Eventually(t, func() error {
		if noExecute, _ := evicting(node(kept)); !noExecute {
			return errors.New("not tainted though nothing shields it any more")
		}
		return nil
	})
}
