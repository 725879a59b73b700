package kube

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gridmesh/gridmesh/api/names"
	apiv1 "github.com/gridmesh/gridmesh/api/v1"
)

// GridKinds is what grids depend on: all grids and nodes, and of the workloads
// and revisions those that belong to a grid.
func GridKinds() []Kind {
	grids := schema.GroupVersion{Group: apiv1.Group, Version: apiv1.Version}
	apps := schema.GroupVersion{Group: "apps", Version: "v1"}
	core := schema.GroupVersion{Version: "v1"}
	return []Kind{
		{Resource: core.WithResource("nodes"), Kind: "Node"},
		{Resource: grids.WithResource("deploymentgrids"), Kind: "DeploymentGrid"},
		{Resource: grids.WithResource("statefulsetgrids"), Kind: "StatefulSetGrid"},
		{Resource: grids.WithResource("servicegrids"), Kind: "ServiceGrid"},
		{Resource: apps.WithResource("deployments"), Kind: "Deployment", Selector: names.GridSelector},
		{Resource: apps.WithResource("statefulsets"), Kind: "StatefulSet", Selector: names.GridSelector},
		{Resource: core.WithResource("services"), Kind: "Service", Selector: names.GridSelector},
		{Resource: apps.WithResource("controllerrevisions"), Kind: "ControllerRevision", Selector: names.GridSelector},
	}
}

// pageSize is how many objects are asked for at once.
const pageSize = 500

// Objects lists the objects of some kinds, as they are now.
func (c *Client) Objects(ctx context.Context, kinds []Kind) ([]map[string]any, error) {
	var all []map[string]any
	for _, k := range kinds {
		options := metav1.ListOptions{LabelSelector: k.Selector, Limit: pageSize}
		for {
			page, err := c.dynamic.Resource(k.Resource).List(ctx, options)
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
func (c *Client) Merge(ctx context.Context, k Kind, namespace, name string, patch []byte, manager string, dry ...string) error {
	_, err := c.dynamic.Resource(k.Resource).Namespace(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager, DryRun: dry})
	if err != nil {
		return fmt.Errorf("patch %s %s/%s: %w", k.Kind, namespace, name, err)
	}
	return nil
}
