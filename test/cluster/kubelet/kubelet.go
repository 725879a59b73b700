package kubelet

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// Kubelet runs the pods of one node.
type Kubelet struct {
	cfg   *Config
	kube  kubernetes.Interface
	log   *slog.Logger
	net   *network
	known cache.Store // the pods that the API server has told of

	mu     sync.Mutex
	pods   map[types.UID]*worker
	server [][2]string // the API server's environment variables
	wg     sync.WaitGroup
}

// Run serves a node until ctx ends; then its pods end, too.
func Run(ctx context.Context, cfg *Config, log *slog.Logger) error {
	rc, err := clientcmd.BuildConfigFromFlags("", cfg.Kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	rc.QPS, rc.Burst = 200, 400
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return err
	}
	n, err := newNetwork(cfg)
	if err != nil {
		return err
	}
	k := &Kubelet{cfg: cfg, kube: client, log: log, net: n, pods: map[types.UID]*worker{}}
	// A machine that starts again has nothing left of the pods it ran.
	if err := os.RemoveAll(filepath.Join(cfg.Dir, "pods")); err != nil {
		return err
	}
	if err := k.register(ctx); err != nil {
		return err
	}
	k.wg.Go(func() { k.heartbeat(ctx, "lease", leaseEvery, k.renew) })
	k.wg.Go(func() { k.heartbeat(ctx, "status", statusEvery, k.nodeStatus) })
	k.watch(ctx)
	<-ctx.Done()
	k.wg.Wait()
	return nil
}

// watch starts, updates and ends a worker for each pod bound to the node.
func (k *Kubelet) watch(ctx context.Context) {
	lw := cache.NewListWatchFromClient(k.kube.CoreV1().RESTClient(), "pods", corev1.NamespaceAll,
		fields.OneTermEqualSelector("spec.nodeName", k.cfg.Node))
	store, c := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: lw, ObjectType: &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { k.see(ctx, o.(*corev1.Pod)) },
			UpdateFunc: func(_, o any) { k.see(ctx, o.(*corev1.Pod)) },
			DeleteFunc: func(o any) {
				if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
					o = gone.Obj
				}
				k.forget(o.(*corev1.Pod))
			},
		},
	})
	k.known = store
	k.wg.Go(func() { c.RunWithContext(ctx) })
}

// has reports whether the API server has a pod, as far as it has told.
func (k *Kubelet) has(pod *corev1.Pod) bool {
	o, there, err := k.known.Get(pod)
	return err == nil && there && o.(*corev1.Pod).UID == pod.UID
}

func (k *Kubelet) see(ctx context.Context, pod *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := k.pods[pod.UID]
	if w == nil {
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			if pod.DeletionTimestamp != nil {
				k.wg.Go(func() { k.remove(ctx, pod) })
			}
			return
		}
		w = newWorker(k, pod)
		k.pods[pod.UID] = w
		k.wg.Go(func() { w.run(ctx) })
	}
	w.update(pod)
}

// forget ends a pod that was removed by force.
func (k *Kubelet) forget(pod *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if w := k.pods[pod.UID]; w != nil {
		w.vanish()
	}
}

func (k *Kubelet) drop(uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.pods, uid)
}

// retry calls f until it succeeds or ctx ends.
func retry(ctx context.Context, f func() error) {
	for wait := retryMin; f() != nil; wait = min(2*wait, retryMax) {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}
