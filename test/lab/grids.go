package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// gridBench measures the controller on API objects alone: nothing acts on
// Nodes and Deployments.
type gridBench struct {
	units, grids, nodes int
	clock
	c          *cluster.Cluster
	kube       kubernetes.Interface
	controller *edge.Process
	kubeconfig string
}

func gridsCommand() *cobra.Command {
	b := &gridBench{}
	cmd := &cobra.Command{
		Use: "bench-grids", Short: "Measure what grids cost an API server, beside one write per node and sync", Args: cobra.NoArgs,
		Example: "  lab bench-grids --units 100 --nodes 1200",
		RunE:    checked(func() error { return atLeast(1, "units", b.units, "grids", b.grids, "nodes", b.nodes) }, b.run),
	}
	cmd.Flags().IntVar(&b.units, "units", 1000, "units")
	cmd.Flags().IntVar(&b.grids, "grids", 20, "DeploymentGrids")
	cmd.Flags().IntVar(&b.nodes, "nodes", 12000, "Nodes, spread over the units")
	return cmd
}

// figure of one phase.
type phase struct {
	what   string
	took   time.Duration
	writes float64
	memory string
}

func (b *gridBench) run(ctx context.Context) error {
	printFacts()
	b.begin = time.Now()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	var err error
	if b.c, b.kube, err = start(ctx, cluster.Config{Bare: true}); err != nil {
		return err
	}
	if b.kubeconfig, err = b.c.ControllerKubeconfig(); err != nil {
		return err
	}
	b.say("writing %d Nodes in %d units", b.nodes, b.units)
	if err := many(ctx, b.nodes, b.node); err != nil {
		return err
	}
	var phases []phase
	for _, f := range []func(context.Context) ([]phase, error){b.fromNothing, b.oneLabel, b.unchanged, b.naive} {
		list, err := f(ctx)
		if err != nil {
			return err
		}
		phases = append(phases, list...)
	}
	children := b.units * b.grids
	t := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "PHASE\tTIME\tAPI WRITES\tPER CHILD\tCONTROLLER")
	for _, p := range phases {
		fmt.Fprintf(t, "%s\t%s\t%.0f\t%.3f\t%s\n", p.what, p.took.Round(time.Millisecond), p.writes, p.writes/float64(children), p.memory)
	}
	return t.Flush()
}

func (b *gridBench) node(ctx context.Context, i int) error {
	_, err := b.kube.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%05d", i), Labels: map[string]string{"site": fmt.Sprintf("site-%04d", i%b.units)}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}, metav1.CreateOptions{})
	return err
}

func (b *gridBench) start() (err error) {
	b.controller, err = b.c.StartController(b.kubeconfig, "--leader-elect=false", "--kube-qps", "2000", "--kube-burst", "4000")
	return err
}

const benchGrid = `
apiVersion: superedge.io/v1
kind: DeploymentGrid
metadata: {name: grid-NN}
spec:
  gridUniqKey: site
  template: {replicas: 2, selector: {matchLabels: {app: grid-NN}}, template: {metadata: {labels: {app: grid-NN}}, spec: {containers: [{name: app, image: registry.example/app, env: [{name: A, value: b}], ports: [{containerPort: 8080}], resources: {requests: {cpu: 10m, memory: 16Mi}}}]}}}
`

// fromNothing makes all children.
func (b *gridBench) fromNothing(ctx context.Context) ([]phase, error) {
	if err := b.start(); err != nil {
		return nil, err
	}
	if err := wait.Until(ctx, func() error {
		_, err := b.c.Kubectl("get", "deploymentgrids")
		return err
	}); err != nil {
		return nil, err
	}
	b.say("making %d children", b.units*b.grids)
	before, err := b.writes(ctx)
	if err != nil {
		return nil, err
	}
	var docs []string
	for i := range b.grids {
		docs = append(docs, strings.ReplaceAll(benchGrid, "NN", fmt.Sprintf("%02d", i)))
	}
	start := time.Now()
	if err := b.c.Apply(strings.Join(docs, "---")); err != nil {
		return nil, err
	}
	before += float64(b.grids) // the grids themselves
	if err := b.settle(ctx, b.units*b.grids); err != nil {
		return nil, err
	}
	took := time.Since(start)
	return b.phase(ctx, "from nothing", took, before)
}

// phase counts once the last status is written.
func (b *gridBench) phase(ctx context.Context, what string, took time.Duration, before float64) ([]phase, error) {
	time.Sleep(12 * time.Second)
	after, err := b.writes(ctx)
	b.say("%s: %s", what, took.Round(time.Millisecond))
	return []phase{{what, took, after - before, memory(b.controller)}}, err
}

// settle waits until there are n Deployments.
func (b *gridBench) settle(ctx context.Context, n int) error {
	return wait.Until(ctx, func() error {
		list, err := b.kube.AppsV1().Deployments("default").List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return err
		}
		have := len(list.Items)
		if list.RemainingItemCount != nil {
			have += int(*list.RemainingItemCount)
		}
		if have != n {
			return fmt.Errorf("%d of %d children", have, n)
		}
		return nil
	})
}

// oneLabel gives one Node of many a unit of its own.
func (b *gridBench) oneLabel(ctx context.Context) ([]phase, error) {
	before, err := b.writes(ctx)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if _, err := b.kube.CoreV1().Nodes().Patch(ctx, "node-00007", types.MergePatchType, []byte(`{"metadata":{"labels":{"site":"new"}}}`), metav1.PatchOptions{}); err != nil {
		return nil, err
	}
	if err := b.settle(ctx, (b.units+1)*b.grids); err != nil {
		return nil, err
	}
	return b.phase(ctx, fmt.Sprintf("one label: a unit more in %d grids", b.grids), time.Since(start), before)
}

// unchanged restarts the controller on a world in which nothing changed.
func (b *gridBench) unchanged(ctx context.Context) ([]phase, error) {
	b.controller.Signal(syscall.SIGTERM)
	if err := wait.Until(ctx, func() error {
		if b.controller.Running() {
			return errors.New("it runs")
		}
		return nil
	}); err != nil {
		return nil, err
	}
	before, err := b.writes(ctx)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := b.start(); err != nil {
		return nil, err
	}
	if err := wait.Until(ctx, func() error {
		if !strings.Contains(b.controller.Log(), "leading") {
			return errors.New("it does not lead yet")
		}
		return nil
	}); err != nil {
		return nil, err
	}
	took := time.Since(start)
	time.Sleep(35 * time.Second) // longer than its look at everything
	return b.phase(ctx, "restart, nothing changed", took, before)
}

// naive is the rule of one write per Node and sync, for one grid of as many
// units: most writes meet what is there already.
func (b *gridBench) naive(ctx context.Context) ([]phase, error) {
	b.controller.Signal(syscall.SIGTERM)
	before, err := b.writes(ctx)
	if err != nil {
		return nil, err
	}
	b.say("one grid by one write per Node, for comparison")
	start := time.Now()
	err = many(ctx, b.nodes, func(ctx context.Context, i int) error {
		labels := map[string]string{"app": "naive"}
		pod := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "registry.example/app"}}}}
		_, err := b.kube.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("naive-site-%04d", i%b.units)},
			Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: pod},
		}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	took := time.Since(start)
	after, err2 := b.writes(ctx)
	times := time.Duration(b.grids)
	return []phase{{fmt.Sprintf("one write per Node, one grid measured, times %d", b.grids), took * times, (after - before) * float64(b.grids), "-"}}, errors.Join(err, err2)
}

// writes counts the writes so far, but for Leases and Nodes.
func (b *gridBench) writes(ctx context.Context) (float64, error) {
	return b.c.Writes(ctx, func(resource, _ string) bool { return resource != "leases" && resource != "nodes" })
}
