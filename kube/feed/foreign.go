package feed

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/topology"
)

// foreign are the Services that are left to another proxy, by their names
// alone: nobody may take them for names that do not exist.
type foreign struct{}

func (foreign) convert(m *metav1.PartialObjectMetadata) *topology.Service {
	return &topology.Service{Key: topology.ObjectKey{Namespace: m.Namespace, Name: m.Name}, Foreign: true}
}

func (foreign) weight(*metav1.PartialObjectMetadata) int { return 1 }

func (foreign) set(b *topology.Builder, _ topology.ObjectKey, s *topology.Service) bool {
	return b.SetService(s)
}

func (foreign) remove(b *topology.Builder, key topology.ObjectKey) bool { return b.DeleteService(key) }
