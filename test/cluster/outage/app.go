package outage

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// Tolerations of a template: Bare has none, so that Kubernetes gives its pods
// those of Patience; Brief is as Bare, but soon over; Kept outlasts any outage.
const (
	Bare  = `[]`
	Brief = `[{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 5}, {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 5}]`
	Kept  = `[{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute}, {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute}]`
)

// unitKey is the label of the app's unit: no other node has it.
const unitKey = "healed"

const manifest = `
apiVersion: superedge.io/v1
kind: DeploymentGrid
metadata: {name: NAME}
spec:
  gridUniqKey: ` + unitKey + `
  template:
    replicas: 2
    selector: {matchLabels: {app: NAME}}
    template:
      metadata: {labels: {app: NAME}}
      spec:
        terminationGracePeriodSeconds: 1
        tolerations: TOLERATIONS
        topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: NAME}}}]
        containers:
        - name: app
          image: gridmesh.test/app:1
          imagePullPolicy: Never
          ports: [{name: main, containerPort: 8080}]
          readinessProbe: {tcpSocket: {port: main}, periodSeconds: 1}
---
apiVersion: superedge.io/v1
kind: ServiceGrid
metadata: {name: NAME}
spec:
  gridUniqKey: ` + unitKey + `
  template: {selector: {app: NAME}, ports: [{port: 80, targetPort: main}]}
`

// App is a DeploymentGrid with a pod on each of two nodes, which are its only
// unit, and the Service of a ServiceGrid.
type App struct {
	Name    string
	Service string
	To      netip.AddrPort
	Pods    []corev1.Pod // those that it began with
	c       *cluster.Cluster
}

// Deploy needs a gridmesh-controller that runs. The app goes with the test.
func Deploy(t *testing.T, c *cluster.Cluster, name, tolerations string, nodes [2]string) *App {
	t.Helper()
	a := &App{Name: name, Service: name + "-svc", c: c}
	must := func(out string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	must(c.Kubectl("label", "--overwrite", "node", nodes[0], nodes[1], unitKey+"=here"))
	text := strings.NewReplacer("NAME", name, "TOLERATIONS", tolerations).Replace(manifest)
	wait.Eventually(t, func() error { return c.Apply(text) }) // when the CRDs are there
	t.Cleanup(func() {
		must(c.Kubectl("delete", "--ignore-not-found", "--wait=true", "deploymentgrid/"+name, "servicegrid/"+name))
	})
	ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
	defer cancel()
	var err error
	a.Pods, err = c.WaitPods(ctx, metav1.NamespaceDefault, "app="+name, 2)
	must("", err)
	wait.Eventually(t, func() error {
		svc, err := c.Kube.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, a.Service, metav1.GetOptions{})
		if err == nil {
			a.To = netip.AddrPortFrom(netip.MustParseAddr(svc.Spec.ClusterIP), 80)
		}
		return err
	})
	return a
}

// IPs are the addresses of the pods that it began with.
func (a *App) IPs() (list []netip.Addr) {
	for _, p := range a.Pods {
		list = append(list, netip.MustParseAddr(p.Status.PodIP))
	}
	return list
}

// Ready returns nil once it has two pods, both of them ready.
func (a *App) Ready(ctx context.Context) error {
	_, err := a.c.ReadyPods(ctx, metav1.NamespaceDefault, "app="+a.Name, len(a.Pods))
	return err
}

// Lost returns nil once Kubernetes has none of its pods as ready, and would
// delete them: their nodes have the taint.
func (a *App) Lost(ctx context.Context) error {
	now, err := a.c.Pods(ctx, metav1.NamespaceDefault, "app="+a.Name)
	if err != nil {
		return err
	}
	for _, p := range now {
		if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}) {
			return fmt.Errorf("the cloud still counts %s as ready", p.Name)
		}
	}
	for _, p := range a.Pods {
		node, err := a.c.Kube.CoreV1().Nodes().Get(ctx, p.Spec.NodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
			return taint.Key == corev1.TaintNodeUnreachable && taint.Effect == corev1.TaintEffectNoExecute
		}) {
			return fmt.Errorf("pods of %s are not about to be deleted: it has only %v", node.Name, node.Spec.Taints)
		}
	}
	return nil
}

// Deleted returns nil once Kubernetes has deleted all pods that it began with,
// whether they have ended or not.
func (a *App) Deleted(ctx context.Context) error {
	left, err := a.left(ctx)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%q are not deleted", left)
	}
	return err
}

// Stayed returns nil while Kubernetes has deleted none of them.
func (a *App) Stayed(ctx context.Context) error {
	left, err := a.left(ctx)
	if err == nil && len(left) < len(a.Pods) {
		err = fmt.Errorf("of the %d pods of %s only %q were not deleted", len(a.Pods), a.Name, left)
	}
	return err
}

// left are the pods that it began with and that are not deleted.
func (a *App) left(ctx context.Context) (names []string, err error) {
	now, err := a.c.Pods(ctx, metav1.NamespaceDefault, "app="+a.Name)
	for _, p := range now {
		if p.DeletionTimestamp == nil && slices.ContainsFunc(a.Pods, func(old corev1.Pod) bool { return old.UID == p.UID }) {
			names = append(names, p.Name)
		}
	}
	return names, err
}

// tolerates fails the test unless the pods tolerate an unreachable node for as long
// as said, in seconds; -1 for ever.
func (a *App) tolerates(t *testing.T, seconds int64) {
	t.Helper()
	for _, p := range a.Pods {
		if !slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool {
			return t.Key == corev1.TaintNodeUnreachable && ptr.Deref(t.TolerationSeconds, -1) == seconds
		}) {
			t.Fatalf("%s does not tolerate %s for %d s: %v", p.Name, corev1.TaintNodeUnreachable, seconds, p.Spec.Tolerations)
		}
	}
}
