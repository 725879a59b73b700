package feed

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/convert"
	"github.com/gridmesh/gridmesh/topology"
)

type services struct{}

func (services) convert(s *corev1.Service) *topology.Service { return convert.Service(s) }

func (services) weight(*corev1.Service) int { return 1 }

func (services) set(b *topology.Builder, _ topology.ObjectKey, s *topology.Service) bool {
	return b.SetService(s)
}

func (services) remove(b *topology.Builder, key topology.ObjectKey) bool { return b.DeleteService(key) }
