package objects

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gridmesh/gridmesh/api/names"
	apiv1 "github.com/gridmesh/gridmesh/api/v1"
)

// Kind names objects that are listed, mirrored or changed.
type Kind struct {
	Resource schema.GroupVersionResource
	Kind     string
	Selector string // of labels; "" for all
}

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
