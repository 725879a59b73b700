package typed

import (
	"context"
	"fmt"
	"maps"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/kube"
)

// EachNode reads all Nodes, one page after the other.
func EachNode(ctx context.Context, c *kube.Client, each func(*corev1.Node) error) error {
	return kube.Pages(metav1.ListOptions{Limit: kube.PageSize}, func(o metav1.ListOptions) (runtime.Object, error) {
		list, err := c.Typed.CoreV1().Nodes().List(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("list nodes: %w", err)
		}
		for i := range list.Items {
			if err := each(&list.Items[i]); err != nil {
				return nil, err
			}
		}
		return list, nil
	})
}

// LeasesWith are the Leases of a namespace that have a label.
func LeasesWith(ctx context.Context, c *kube.Client, namespace, label string) ([]coordinationv1.Lease, error) {
	list, err := c.Typed.CoordinationV1().Leases(namespace).List(ctx, metav1.ListOptions{LabelSelector: label})
	if err != nil {
		return nil, fmt.Errorf("list the leases of namespace %s: %w", namespace, err)
	}
	return list.Items, nil
}

// DeleteLease deletes a Lease, if nobody wrote it since it was read; one that is gone is no error.
func DeleteLease(ctx context.Context, c *kube.Client, l *coordinationv1.Lease) error {
	only := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &l.UID, ResourceVersion: &l.ResourceVersion}}
	err := c.Typed.CoordinationV1().Leases(l.Namespace).Delete(ctx, l.Name, only)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete lease %s/%s: %w", l.Namespace, l.Name, err)
	}
	return nil
}

// TakeTable deletes a NodeTable and returns the nodes that it had; none where there is none, or
// its kind is not served.
func TakeTable(ctx context.Context, c *kube.Client, namespace, name string) (nodes []string, err error) {
	data, err := Table(ctx, c, namespace, name)
	if err == nil {
		nodes = slices.Collect(maps.Keys(data))
		err = c.Dynamic.Resource(tableVersion.WithResource(names.NodeTables)).Namespace(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("delete NodeTable %s/%s: %w", namespace, name, err)
	}
	return nodes, nil
}
