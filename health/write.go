package health

import (
	"context"
	"strconv"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/typed"
)

// Annotations writes verdicts as annotations of Nodes.
type Annotations struct {
	Client *kube.Client
	// Mirror writes public SuperEdge's annotation besides.
	Mirror bool
}

// Annotate implements Cloud.
func (a Annotations) Annotate(ctx context.Context, v Verdict) error {
	verdict := strconv.FormatBool(v.Well)
	set := map[string]*string{names.NodeHealth: &verdict, names.Evidence: &v.Evidence}
	if a.Mirror {
		set[names.NodeUnhealthy] = nil
		if yes := "yes"; !v.Well {
			set[names.NodeUnhealthy] = &yes
		}
	}
	return typed.Annotate(ctx, a.Client, v.Node, v.UID, set)
}
