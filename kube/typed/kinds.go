package typed

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/kube"
)

// Nodes mirrors Nodes.
func Nodes[T any](c *kube.Client, s Selection, keep func(*corev1.Node) T) *Mirror[T] {
	return newMirror("nodes", c.Typed, c.Typed.CoreV1().Nodes(), s, &corev1.Node{}, keep)
}

// Leases mirrors the Leases of a namespace.
func Leases[T any](c *kube.Client, namespace string, s Selection, keep func(*coordinationv1.Lease) T) *Mirror[T] {
	return newMirror("leases", c.Typed, c.Typed.CoordinationV1().Leases(namespace), s, &coordinationv1.Lease{}, keep)
}

// Pods mirrors the Pods of all namespaces.
func Pods[T any](c *kube.Client, s Selection, keep func(*corev1.Pod) T) *Mirror[T] {
	return newMirror("pods", c.Typed, c.Typed.CoreV1().Pods(""), s, &corev1.Pod{}, keep)
}
