package objects

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gridmesh/gridmesh/kube"
)

// List asks for the objects of some kinds, as they are now.
func List(ctx context.Context, c *kube.Client, kinds []Kind) ([]map[string]any, error) {
	var all []map[string]any
	for _, k := range kinds {
		options := metav1.ListOptions{Limit: kube.PageSize}
		k.narrow(&options)
		err := kube.Pages(options, func(o metav1.ListOptions) (runtime.Object, error) {
			page, err := k.among(c.Dynamic).List(ctx, o)
			if apierrors.IsNotFound(err) {
				return nil, fmt.Errorf("list %s: the cluster does not know them: is gridmesh-controller installed? %w", k.Resource.Resource, err)
			}
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", k.Resource.Resource, err)
			}
			for i := range page.Items {
				all = append(all, page.Items[i].Object)
			}
			return page, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Merge changes one object by a merge patch (RFC 7386) in the name of a field
// manager; with dry it only asks whether that would be allowed.
func Merge(ctx context.Context, c *kube.Client, k Kind, namespace, name string, patch []byte, manager string, dry ...string) error {
	_, err := c.Dynamic.Resource(k.Resource).Namespace(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager, DryRun: dry})
	if err != nil {
		return fmt.Errorf("patch %s %s/%s: %w", k.Kind, namespace, name, err)
	}
	return nil
}
