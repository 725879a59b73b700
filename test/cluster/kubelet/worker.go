package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

// worker runs one pod. run owns everything but the channels.
type worker struct {
	k      *Kubelet
	pod    *corev1.Pod
	dir    string
	facts  facts
	netPod *netlab.Pod

	updates chan *corev1.Pod
	gone    chan struct{}
	changed chan struct{} // a container changed
	init    []*container
	main    []*container
	started metav1.Time
	failure string // why the pod could not be set up
	runs    bool   // it was set up, and its containers run
	last    corev1.PodStatus
}

func newWorker(k *Kubelet, pod *corev1.Pod) *worker {
	return &worker{
		k: k, pod: pod, dir: filepath.Join(k.cfg.Dir, "pods", string(pod.UID)),
		updates: make(chan *corev1.Pod, 1), gone: make(chan struct{}, 1), changed: make(chan struct{}, 1), started: metav1.Now(),
	}
}

// update hands over the newest state of the pod.
func (w *worker) update(pod *corev1.Pod) {
	select {
	case <-w.updates:
	default:
	}
	w.updates <- pod
}

func (w *worker) vanish() {
	select {
	case w.gone <- struct{}{}:
	default:
	}
}

func (w *worker) notify() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// run runs the pod until it is deleted, gone, or ctx ends. A pod that cannot be
// set up is tried again for as long as it is there, and may be deleted meanwhile.
func (w *worker) run(ctx context.Context) {
	defer w.k.drop(w.pod.UID)
	running, stop := context.WithCancel(ctx)
	defer stop()
	w.report(ctx)
	done := make(chan struct{}) // closed when no container runs
	halt := func(grace time.Duration) { w.halt(grace, stop, done) }
	attempt, pause := time.NewTimer(0), retryMin
	defer attempt.Stop()
	for {
		select {
		case <-attempt.C:
			if !w.setUp(running) {
				attempt.Reset(pause)
				pause = min(2*pause, retryMax)
				continue
			}
			w.runs = true
			go func() {
				w.containers(running)
				close(done)
			}()
		case pod := <-w.updates:
			w.pod = pod
			if pod.DeletionTimestamp != nil {
				halt(grace(pod))
				w.report(ctx)
				w.clear()
				w.k.remove(ctx, pod)
				return
			}
			if overruled(w.last.Conditions, pod.Status.Conditions) {
				w.last = corev1.PodStatus{}
				w.report(ctx)
			}
		case <-w.changed:
			w.report(ctx)
		case <-w.gone: // there is nobody to report of
			halt(0)
			w.clear()
			return
		case <-ctx.Done():
			halt(0)
			w.report(context.WithoutCancel(ctx))
			w.clear()
			return
		}
	}
}

func grace(pod *corev1.Pod) time.Duration {
	return time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 30)) * time.Second
}

// setUp gives the pod its network and volumes, and reports whether it could.
func (w *worker) setUp(ctx context.Context) bool {
	err := w.prepare(ctx)
	w.failure = ""
	if err != nil {
		w.failure = err.Error()
		w.k.log.Warn("could not set up a pod; trying again", "pod", w.pod.Namespace+"/"+w.pod.Name, "err", err)
		w.report(ctx)
	}
	return err == nil
}

func (w *worker) prepare(ctx context.Context) error {
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		return err
	}
	w.facts = facts{pod: w.pod, ips: w.k.cfg.IPs, hostIPs: w.k.cfg.IPs}
	if !w.pod.Spec.HostNetwork {
		if w.netPod == nil {
			p, err := w.k.net.add(w.pod)
			if err != nil {
				return fmt.Errorf("network: %w", err)
			}
			w.netPod = p
		}
		w.facts.ips = []string{w.netPod.IP.String(), w.netPod.IP6.String()}
	}
	volumes, err := w.k.volumes(ctx, w.pod, w.dir, w.facts)
	if err != nil {
		return err
	}
	w.init, w.main = nil, nil
	for i := range w.pod.Spec.InitContainers {
		w.init = append(w.init, newContainer(w, &w.pod.Spec.InitContainers[i], volumes))
	}
	for i := range w.pod.Spec.Containers {
		w.main = append(w.main, newContainer(w, &w.pod.Spec.Containers[i], volumes))
	}
	return nil
}

// containers runs the init containers one after another, then the others.
func (w *worker) containers(ctx context.Context) {
	for _, c := range w.init {
		if !c.runOnce(ctx) {
			return
		}
	}
	ended := make(chan struct{}, len(w.main))
	for _, c := range w.main {
		go func() {
			c.run(ctx)
			ended <- struct{}{}
		}()
	}
	for range w.main {
		<-ended
	}
	w.notify()
}

// halt stops the containers.
func (w *worker) halt(grace time.Duration, stop func(), done chan struct{}) {
	deadline := time.Now().Add(grace)
	for _, c := range append(w.init, w.main...) {
		c.stop(deadline)
	}
	stop()
	if w.runs {
		<-done
	}
}

// clear takes the pod off the network and the disk.
func (w *worker) clear() {
	if w.netPod != nil {
		if err := w.k.net.remove(w.netPod); err != nil {
			w.k.log.Warn("could not remove a pod's network", "pod", w.pod.Name, "err", err)
		}
	}
	if err := os.RemoveAll(w.dir); err != nil {
		w.k.log.Warn("could not remove a pod's directory", "pod", w.pod.Name, "err", err)
	}
}

// remove lets the API server forget a pod that has ended.
func (k *Kubelet) remove(ctx context.Context, pod *corev1.Pod) {
	retry(ctx, func() error {
		err := k.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: ptr.To(int64(0)), Preconditions: &metav1.Preconditions{UID: &pod.UID},
		})
		if apierrors.IsConflict(err) {
			return nil
		}
		// What is not found may be what an API server's mirror is behind with, as after its start
		// (NodeRestriction), and what is forbidden another node's pod of that name.
		if err != nil && !k.has(pod) {
			return nil
		}
		return err
	})
}

// report writes the pod's true status, if it differs from what was written
// last. An API server that is away is tried again at the next change.
func (w *worker) report(ctx context.Context) {
	status := w.status()
	if reflect.DeepEqual(status, w.last) {
		return
	}
	said := *status.DeepCopy()
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	pods := w.k.kube.CoreV1().Pods(w.pod.Namespace)
	now, err := pods.Get(ctx, w.pod.Name, metav1.GetOptions{})
	if err == nil && now.UID == w.pod.UID {
		keepForeign(&status, now.Status.Conditions)
		if !equality.Semantic.DeepEqual(now.Status, status) {
			now.Status = status
			_, err = pods.UpdateStatus(ctx, now, metav1.UpdateOptions{})
		}
	}
	switch {
	case err == nil, apierrors.IsNotFound(err):
		w.last = said
	case errors.Is(err, context.Canceled):
	default:
		w.k.log.Warn("could not report a pod's status; trying again", "pod", w.pod.Namespace+"/"+w.pod.Name, "err", err)
		time.AfterFunc(time.Second, w.notify)
	}
}

// overruled reports whether somebody else has written over what was said of a
// pod, as the controller manager does where a node is silent: then, as with a
// kubelet, it is said again.
func overruled(said, now []corev1.PodCondition) bool {
	return slices.ContainsFunc(said, func(c corev1.PodCondition) bool {
		return slices.ContainsFunc(now, func(n corev1.PodCondition) bool { return n.Type == c.Type && n.Status != c.Status })
	})
}

// keepForeign keeps conditions of others and transition times.
func keepForeign(status *corev1.PodStatus, before []corev1.PodCondition) {
	for _, old := range before {
		found := false
		for i := range status.Conditions {
			c := &status.Conditions[i]
			if c.Type != old.Type {
				continue
			}
			found = true
			if c.Status == old.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
		}
		if !found {
			status.Conditions = append(status.Conditions, old)
		}
	}
}
