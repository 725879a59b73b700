package kubernetes

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// units of the waves' tests: a node each.
var waveUnits = map[string]string{"a-1": "u1", "a-2": "u2", "b-1": "u3", "b-2": "u4", "c-1": "u5", "c-2": "u6"}

// front watches the children of a grid and notes, in the order of the API
// server, which units the change has reached and which of them are not done.
type front struct {
	mu      sync.Mutex
	want    string            // the release that is rolled out
	running map[string]string // release by unit
	done    map[string]bool
	order   []string // units in the order in which the change reached them
	most    int      // units that were not done at once
	times   []time.Time
}

func watchFront(t *testing.T, grid string) *front {
	t.Helper()
	f := &front{running: map[string]string{}, done: map[string]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	w, err := c.Kube.AppsV1().Deployments("default").Watch(ctx, metav1.ListOptions{LabelSelector: "superedge.io/grid-selector=" + grid})
	must(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e := range w.ResultChan() {
			if d, ok := e.Object.(*appsv1.Deployment); ok && e.Type != watch.Deleted {
				f.see(d)
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return f
}

func (f *front) see(d *appsv1.Deployment) {
	f.mu.Lock()
	defer f.mu.Unlock()
	unit, release := d.Annotations["gridmesh.io/unit"], d.Spec.Template.Spec.Containers[0].Env[0].Value
	if release == f.want && f.running[unit] != release {
		f.order = append(f.order, unit)
		f.times = append(f.times, time.Now())
	}
	f.running[unit] = release
	s := d.Status
	f.done[unit] = s.ObservedGeneration >= d.Generation && s.UpdatedReplicas == *d.Spec.Replicas && s.Replicas == s.UpdatedReplicas && s.AvailableReplicas == *d.Spec.Replicas
	busy := 0
	for unit, release := range f.running {
		if release == f.want && !f.done[unit] {
			busy++
		}
	}
	f.most = max(f.most, busy)
}

// expect begins to follow a release.
func (f *front) expect(release string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.want, f.order, f.times, f.most = release, nil, nil, 0
}

func (f *front) seen() (order []string, times []time.Time, most int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.order), slices.Clone(f.times), f.most
}

// reached waits until the change has reached n units.
func (f *front) reached(t *testing.T, n int) []string {
	t.Helper()
	var order []string
	wait.Eventually(t, func() error {
		if order, _, _ = f.seen(); len(order) < n {
			return fmt.Errorf("the change has reached %v", order)
		}
		return nil
	})
	return order
}

// A change goes to the pilot, then to two units at a time, with a pause; the
// leader that is killed in the middle of a wave changes nothing about that.
func TestGridWaves(t *testing.T) {
	inUnits(t, waveUnits)
	leader := controller(t)
	const rollout = "rollout: {order: [u4], maxUnits: 2, pauseSeconds: 2, progressDeadlineSeconds: 20}" // a slow machine must not fail to be ready
	applied(t, deploymentGrid("wave", rollout, "1"), "deploymentgrid/wave")
	allReady(t, "deploymentgrids", "wave", 6)
	f := watchFront(t, "wave")
	controller(t)

	file := filepath.Join(t.TempDir(), "new.yaml")
	must(t, os.WriteFile(file, []byte(deploymentGrid("wave", rollout, "2")), 0o600))
	out := inspect(t, "grid", "plan", "-f", file)
	t.Logf("\n%s", out)
	if strings.Count(out, " wait ") != 5 || !strings.Contains(out, "deployment wave-u4  update") {
		t.Errorf("the plan of the change does not say that u4 goes and five wait")
	}
	f.expect("2")
	must(t, c.Apply(deploymentGrid("wave", rollout, "2")))
	f.reached(t, 2)
	leader.Kill() // the second wave is under way
	start := time.Now()
	took := allReady(t, "deploymentgrids", "wave", 6)
	order, times, most := f.seen()
	t.Logf("order %v, at most %d at once, whole %s after the leader was killed (%s)", order, most, took, time.Since(start))
	if len(order) != 6 || order[0] != "u4" || most > 2 {
		t.Errorf("order %v, at most %d at once; want u4 first and 2 at once", order, most)
	}
	if pause := times[1].Sub(times[0]); pause < 2*time.Second {
		t.Errorf("the second wave began %s after the first, and the pause is 2 s", pause)
	}
	wait.Eventually(t, func() error { return hasEvent(t, "wave", "WaveBegins", "1 of the 6 units") })
	wait.Eventually(t, func() error { return hasEvent(t, "wave", "RolloutComplete", "") })

	waveStops(t, f, rollout)
	waveRollsBack(t, f)
	waveInTheDark(t, f)
}

// waveStops: a release that cannot run stops at the pilot, and a child that somebody deletes
// is made anew of the one before.
func waveStops(t *testing.T, f *front, rollout string) {
	t.Helper()
	f.expect("broken")
	must(t, c.Apply(strings.Replace(deploymentGrid("wave", rollout, "broken"), "image: gridmesh.test/app", "image: gridmesh.test/none", 1)))
	took := wait.Eventually(t, func() error {
		st, err := statusOf(t, "deploymentgrids", "wave")
		if err != nil {
			return err
		}
		return hasCondition(st.Conditions, "Progressing", metav1.ConditionFalse, "Stopped: unit u4 is not ready")
	})
	t.Logf("a release that cannot run stopped the rollout after %s, with a deadline of 20 s", took)
	wait.Eventually(t, func() error { return hasEvent(t, "wave", "RolloutStopped", "unit u4 is not ready 20s after") })
	wait.Holds(t, 3*time.Second, func() error {
		if order, _, _ := f.seen(); len(order) != 1 {
			return fmt.Errorf("the change has reached %v, want u4 alone", order)
		}
		return nil
	})
	if out, err := c.Kubectl("get", "dg", "wave"); err != nil || !strings.Contains(out, "ROLLOUT") || !strings.Contains(out, " Stopped ") {
		t.Errorf("kubectl get says\n%s, %v", out, err)
	}
	was, err := child("wave-u5")
	must(t, err)
	must(t, c.Kube.AppsV1().Deployments("default").Delete(patient(t), "wave-u5", metav1.DeleteOptions{}))
	wait.Eventually(t, func() error {
		now, err := child("wave-u5")
		if err == nil && now.UID == was.UID {
			err = fmt.Errorf("%s is there still", now.Name)
		}
		return err
	})
	now, err := child("wave-u5")
	must(t, err)
	if got := now.Spec.Template.Spec.Containers[0].Env[0].Value; got != "2" {
		t.Errorf("a unit made anew while the rollout is stopped runs release %s", got)
	}
}

// inspect runs gridmesh as the administrator, in the cloud.
func inspect(t *testing.T, args ...string) string {
	t.Helper()
	out, err := inspectBy(t, c.Kubeconfig, args...)
	if err != nil {
		t.Fatalf("gridmesh %v: %v\n%s", args, err, out)
	}
	return out
}

// inspectBy is inspect by another way to the API server, and it may fail.
func inspectBy(t *testing.T, kubeconfig string, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	cmd := exec.Command(edge.Binary("gridmesh"), append(args, "--kubeconfig", kubeconfig)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, c.Lab.Cloud.Start(cmd))
	err := cmd.Wait()
	return out.String(), err
}

// waveRollsBack: one command, and only the unit that the change had reached is
// touched.
func waveRollsBack(t *testing.T, f *front) {
	t.Helper()
	generations := func() map[string]int64 {
		out := map[string]int64{}
		for unit, name := range children(t, "wave") {
			d, err := child(name)
			must(t, err)
			out[unit] = d.Generation
		}
		return out
	}
	before := generations()
	t.Logf("\n%s%s%s", inspect(t, "grid", "list", "--lenient"), inspect(t, "grid", "units", "wave", "--wrong", "--lenient"), inspect(t, "grid", "history", "wave"))
	if out := inspect(t, "grid", "units", "wave", "--wrong", "--lenient"); !strings.Contains(out, "is stopped: ") || !strings.Contains(out, "Outdated  of 1 replicas 1 are ready, 1 are current") {
		t.Errorf("gridmesh grid units does not name u4:\n%s", out)
	}
	f.expect("2")
	if out := inspect(t, "grid", "rollback", "wave", "--dry-run"); !strings.Contains(out, "goes back from revision 3 to revision 2 (dry run)") {
		t.Errorf("dry run: %s", out)
	}
	start := time.Now()
	if out := inspect(t, "grid", "rollback", "wave"); !strings.Contains(out, "goes back from revision 3 to revision 2") || strings.Contains(out, "paused") {
		t.Errorf("rollback: %s", out)
	}
	allReady(t, "deploymentgrids", "wave", 6)
	t.Logf("rolled back after %s", time.Since(start))
	for unit, now := range generations() {
		if unit != "u4" && now != before[unit] {
			t.Errorf("unit %s was touched: generation %d, was %d", unit, now, before[unit])
		}
	}
	if out := inspect(t, "grid", "rollback", "wave", "--to-revision", "4"); !strings.Contains(out, "is at revision 4 already") {
		t.Errorf("rollback to the current revision: %s\n%s", out, inspect(t, "grid", "history", "wave"))
	}
	pause := func(paused bool) {
		_, err := c.Kubectl("patch", "dg", "wave", "--type=merge", "-p", fmt.Sprintf(`{"spec": {"rollout": {"paused": %v}}}`, paused))
		must(t, err)
	}
	pause(true)
	if out := inspect(t, "grid", "rollback", "wave", "--dry-run"); !strings.Contains(out, "goes back from revision 4 to revision 3 (dry run)") || !strings.Contains(out, "note: deploymentgrid default/wave is paused: ") {
		t.Errorf("rollback of a paused grid: %s", out)
	}
	pause(false)
}

// waveInTheDark: a unit whose only node is away does not stop the others, and
// catches up when it is back.
func waveInTheDark(t *testing.T, f *front) {
	t.Helper()
	kubelet := c.Nodes["c-2"].Kubelet
	kubelet.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { kubelet.Signal(syscall.SIGCONT) })
	wait.Eventually(t, func() error {
		st, err := statusOf(t, "deploymentgrids", "wave")
		if err == nil && st.DarkUnits != 1 {
			err = fmt.Errorf("%d units are dark", st.DarkUnits)
		}
		return err
	})
	f.expect("3")
	must(t, c.Apply(deploymentGrid("wave", "rollout: {maxUnits: 50%}", "3")))
	if order := f.reached(t, 5); slices.Contains(order, "u6") {
		t.Errorf("the change went to the dark unit: %v", order)
	}
	wait.Eventually(t, func() error {
		st, err := statusOf(t, "deploymentgrids", "wave")
		if err == nil && st.UpdatedUnits != 5 {
			err = fmt.Errorf("%d units are updated", st.UpdatedUnits)
		}
		return err
	})
	if out := inspect(t, "grid", "units", "wave", "--wrong"); !strings.Contains(out, "it catches up when one is") {
		t.Errorf("the dark unit is not named:\n%s", out)
	}
	kubelet.Signal(syscall.SIGCONT)
	took := allReady(t, "deploymentgrids", "wave", 6)
	t.Logf("the dark unit had caught up %s after it was back", took)
	if _, _, most := f.seen(); most > 3 {
		t.Errorf("%d units at once, and half of 6 are 3", most)
	}
}
