package kubelet

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// An update of a pod comes while its containers run, which go by what the pod
// was: the race detector says if they look at what is being replaced.
func TestUpdateBesideAContainer(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{Name: "app", Image: "nowhere"}}}}
	w := newWorker(&Kubelet{cfg: &Config{}}, pod)
	c := newContainer(w, &pod.Spec.Containers[0], nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		c.run(ctx)
		close(ended)
	}()
	<-w.changed // it has tried once, and goes on
	w.pod = pod.DeepCopy()
	cancel()
	<-ended
	if !c.isDone() {
		t.Error("the container is not done")
	}
}

// What a container makes of its image's command is its own.
func TestCommandOfAnImage(t *testing.T) {
	image := Image{Command: []string{"run", "$(NAME)"}}
	for _, name := range []string{"one", "other"} {
		c := newContainer(newWorker(&Kubelet{cfg: &Config{}}, &corev1.Pod{}), &corev1.Container{}, nil)
		if got := c.argv(image, map[string]string{"NAME": name}); got[1] != name {
			t.Errorf("%s runs %q", name, got)
		}
	}
}

// What the controller manager writes about a silent node's pods is said
// otherwise again; conditions of others are theirs.
func TestOverruled(t *testing.T) {
	ready := func(s corev1.ConditionStatus) corev1.PodCondition {
		return corev1.PodCondition{Type: corev1.PodReady, Status: s}
	}
	foreign := corev1.PodCondition{Type: "example.org/gate", Status: corev1.ConditionTrue}
	said := []corev1.PodCondition{condition(corev1.PodInitialized, true), ready(corev1.ConditionTrue)}
	for what, tc := range map[string]struct {
		now  []corev1.PodCondition
		want bool
	}{
		"as it was said":         {said, false},
		"nothing yet":            {nil, false},
		"a condition of others":  {append([]corev1.PodCondition{foreign}, said...), false},
		"marked as not ready":    {[]corev1.PodCondition{ready(corev1.ConditionFalse)}, true},
		"marked, beside another": {[]corev1.PodCondition{foreign, ready(corev1.ConditionFalse)}, true},
	} {
		if got := overruled(said, tc.now); got != tc.want {
			t.Errorf("%s: %v, want %v", what, got, tc.want)
		}
	}
}

// forbidding is a kubelet whose API server refuses everything, as it does for
// pods that are no more: without one there is no relationship to the node.
func forbidding(t *testing.T) (k *Kubelet, asked, deleted *atomic.Int32) {
	t.Helper()
	return refusing(t, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "gone", nil))
}

// refusing is a kubelet whose API server has one answer.
func refusing(t *testing.T, with *apierrors.StatusError) (k *Kubelet, asked, deleted *atomic.Int32) {
	t.Helper()
	asked, deleted = &atomic.Int32{}, &atomic.Int32{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Method == http.MethodDelete {
			deleted.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(with.ErrStatus.Code))
		_ = json.NewEncoder(w).Encode(with.ErrStatus)
	}))
	t.Cleanup(srv.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: srv.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return &Kubelet{
		cfg: &Config{Dir: t.TempDir(), IPs: []string{"10.0.0.1"}}, kube: client, log: slog.New(slog.DiscardHandler),
		pods: map[types.UID]*worker{}, known: cache.NewStore(cache.MetaNamespaceKeyFunc),
	}, asked, deleted
}

// unready is a pod that cannot be set up: what it mounts is not to be had.
func unready() *corev1.Pod {
	volume := corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "m"}}}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gone", UID: "1"},
		Spec:       corev1.PodSpec{HostNetwork: true, Volumes: []corev1.Volume{volume}},
	}
}

// within fails where something does not end: what it waits for takes
// milliseconds.
func within(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s does not end", what)
	}
}

// A pod that cannot be set up ends when it is gone or deleted, like any other:
// such a pod was once tried, and reported of, for ever.
func TestPodThatCannotBeSetUpEnds(t *testing.T) {
	for what, end := range map[string]func(w *worker){
		"gone": (*worker).vanish,
		"deleted": func(w *worker) {
			pod := unready()
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = ptr.To(metav1.Now()), ptr.To(int64(0))
			w.update(pod)
		},
	} {
		t.Run(what, func(t *testing.T) {
			k, asked, deleted := forbidding(t)
			w := newWorker(k, unready())
			done := make(chan struct{})
			go func() {
				w.run(t.Context())
				close(done)
			}()
			tried := make(chan struct{})
			go func() {
				for asked.Load() < 6 { // a report, and more than one attempt
					time.Sleep(time.Millisecond)
				}
				close(tried)
			}()
			within(t, "waiting for attempts", tried)
			end(w)
			within(t, "the pod", done)
			if got := deleted.Load() > 0; got != (what == "deleted") {
				t.Errorf("the API server was asked to forget it: %v", got)
			}
		})
	}
}

// To have a pod forgotten is tried for as long as the API server has it: a
// refusal may be one of an API server that has just started, or mean that the
// name is another node's pod's by now. One that has just started also does not
// find what its mirror does not have yet: such a pod once stayed, going, for ever.
func TestForgottenPodIsNotRemovedForEver(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for _, refusal := range []*apierrors.StatusError{apierrors.NewForbidden(pods, "gone", nil), apierrors.NewNotFound(pods, "gone")} {
		t.Run(string(refusal.ErrStatus.Reason), func(t *testing.T) {
			k, _, deleted := refusing(t, refusal)
			pod := unready()
			if err := k.known.Add(pod); err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				k.remove(t.Context(), pod)
				close(done)
			}()
			again := make(chan struct{})
			go func() {
				for deleted.Load() < 2 {
					time.Sleep(time.Millisecond)
				}
				close(again)
			}()
			within(t, "waiting for a second attempt", again)
			other := unready()
			other.UID = "2" // of the same name
			if err := k.known.Update(other); err != nil {
				t.Fatal(err)
			}
			within(t, "removing it", done)
		})
	}
}
