package objects

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gridmesh/gridmesh/kube"
)

// pageSize is how many objects are asked for at once.
const pageSize = 500

// List asks for the objects of some kinds, as they are now.
func List(ctx context.Context, c *kube.Client, kinds []Kind) ([]map[string]any, error) {
	var all []map[string]any
	for _, k := range kinds {
		options := metav1.ListOptions{Limit: pageSize}
		k.narrow(&options)
		for {
			page, err := k.among(c.Dynamic).List(ctx, options)
			if apierrors.IsNotFound(err) {
				return nil, fmt.Errorf("list %s: the cluster does not know them: is gridmesh-controller installed? %w", k.Resource.Resource, err)
			}
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", k.Resource.Resource, err)
			}
			for i := range page.Items {
				all = append(all, page.Items[i].Object)
			}
			if options.Continue = page.GetContinue(); options.Continue == "" {
				break
			}
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
