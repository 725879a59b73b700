package typed

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/kube"
)

// Nodes mirrors Nodes, and does not believe every list of them.
func Nodes[T any](c *kube.Client, s Selection, keep func(*corev1.Node) T) *Mirror[T] {
	return newMirror("nodes", c.Typed, c.Typed.CoreV1().Nodes(), s, &corev1.Node{}, keep).judged().by(c)
}

// Leases mirrors the Leases of a namespace, and does not believe every list of them.
func Leases[T any](c *kube.Client, namespace string, s Selection, keep func(*coordinationv1.Lease) T) *Mirror[T] {
	return newMirror("leases", c.Typed, c.Typed.CoordinationV1().Leases(namespace), s, &coordinationv1.Lease{}, keep).judged().by(c)
}

// ConfigMaps mirrors the ConfigMaps of a namespace, and does not believe every list of them.
func ConfigMaps[T any](c *kube.Client, namespace string, s Selection, keep func(*corev1.ConfigMap) T) *Mirror[T] {
	return newMirror("configmaps", c.Typed, c.Typed.CoreV1().ConfigMaps(namespace), s, &corev1.ConfigMap{}, keep).judged().by(c)
}

// Pods mirrors the Pods of all namespaces.
func Pods[T any](c *kube.Client, s Selection, keep func(*corev1.Pod) T) *Mirror[T] {
	return newMirror("pods", c.Typed, c.Typed.CoreV1().Pods(""), s, &corev1.Pod{}, keep).by(c)
}
