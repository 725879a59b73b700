package feed

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/convert"
	"github.com/gridmesh/gridmesh/topology"
)

// nodes are the metadata of Nodes: their status changes every few minutes and
// routes nothing. Without its nodes every closed Service is dark.
type nodes struct{}

func (nodes) convert(n *metav1.PartialObjectMetadata) *topology.Node {
	return convert.Node(&n.ObjectMeta)
}

func (nodes) weight(*metav1.PartialObjectMetadata) int { return 1 }

func (nodes) set(b *topology.Builder, _ topology.ObjectKey, n *topology.Node) bool {
	return b.SetNode(n)
}

func (nodes) remove(b *topology.Builder, key topology.ObjectKey) bool { return b.DeleteNode(key.Name) }
