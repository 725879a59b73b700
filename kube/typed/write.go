package typed

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gridmesh/gridmesh/kube"
)

// podPage is how many pods of a node are asked for at once.
const podPage = 100

// Freshness is how new a list is to be, as its resourceVersion.
type Freshness string

// Freshnesses. A list of now is a read of etcd, and what the API server's cache has costs it
// little, and may lack what was written in the last moments.
const (
	Now    Freshness = ""
	Cached Freshness = "0"
)

// PodsOn are the pods of a node. Those of now come one page after the other; a cache has no pages.
func PodsOn(ctx context.Context, c *kube.Client, node string, f Freshness, each func(*corev1.Pod) error) error {
	o := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(), ResourceVersion: string(f)}
	if f == Now {
		o.Limit = podPage
	}
	return kube.Pages(o, func(o metav1.ListOptions) (runtime.Object, error) {
		list, err := c.Typed.CoreV1().Pods("").List(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("list the pods of node %s: %w", node, err)
		}
		for i := range list.Items {
			if err := each(&list.Items[i]); err != nil {
				return nil, err
			}
		}
		return list, nil
	})
}

// step is one of a JSON patch (RFC 6902).
type step struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// SetReady writes a pod's condition Ready, if nobody wrote the pod since it was read.
func SetReady(ctx context.Context, c *kube.Client, pod *corev1.Pod, ready corev1.PodCondition) error {
	at := -1
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodReady {
			at = i
		}
	}
	if at < 0 {
		return fmt.Errorf("pod %s/%s has no condition Ready", pod.Namespace, pod.Name)
	}
	data, err := json.Marshal([]step{
		{"test", "/metadata/resourceVersion", pod.ResourceVersion},
		{"replace", fmt.Sprintf("/status/conditions/%d", at), ready},
	})
	if err == nil {
		_, err = c.Typed.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.JSONPatchType, data, metav1.PatchOptions{}, "status")
	}
	if err != nil {
		return fmt.Errorf("set the condition Ready of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// Evict has a pod go as a drain does, which its disruption budgets may refuse. One that is gone
// is no error.
func Evict(ctx context.Context, c *kube.Client, pod *corev1.Pod) error {
	err := c.Typed.PolicyV1().Evictions(pod.Namespace).Evict(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("evict pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// EditTaints writes what edit makes of the taints of the Node of a name and UID, as it is now, where
// that is something else. edit may change the Node's own list.
func EditTaints(ctx context.Context, c *kube.Client, node, uid string, edit func(*corev1.Node) []corev1.Taint) error {
	live, err := c.Typed.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the taints of node %s: %w", node, err)
	}
	asked := *live
	asked.Spec.Taints = slices.Clone(live.Spec.Taints)
	taints := edit(&asked)
	if string(live.UID) != uid || equality.Semantic.DeepEqual(taints, live.Spec.Taints) {
		return nil // another node by now, or somebody else did it
	}
	if taints == nil {
		taints = []corev1.Taint{}
	}
	data, err := json.Marshal([]step{
		{"test", "/metadata/resourceVersion", live.ResourceVersion},
		{"add", "/spec/taints", taints},
	})
	if err == nil {
		_, err = c.Typed.CoreV1().Nodes().Patch(ctx, node, types.JSONPatchType, data, metav1.PatchOptions{})
	}
	if err != nil {
		return fmt.Errorf("write the taints of node %s: %w", node, err)
	}
	return nil
}

// Annotate writes annotations of the Node of a name and UID; nil takes one away.
func Annotate(ctx context.Context, c *kube.Client, node, uid string, annotations map[string]*string) error {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "annotations": annotations}})
	if err == nil {
		_, err = c.Typed.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, data, metav1.PatchOptions{})
	}
	if err != nil {
		return fmt.Errorf("annotate node %s: %w", node, err)
	}
	return nil
}
