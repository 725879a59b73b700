package answer

import (
	"net/netip"
	"strings"

	"github.com/gridmesh/gridmesh/internal/table"
	"github.com/gridmesh/gridmesh/topology"
)

// Config is what the operator chose.
type Config struct {
	// Services: ClusterIP Services are answered too, and PTR.
	Services bool
	// Strict hides the pods that their Service's name does not stand for, which
	// else resolve by their full name.
	Strict bool
	// EmptyNXDomain: a name that stands for no endpoint in this unit, but for
	// some in others, does not exist. The default is that it exists and is empty.
	EmptyNXDomain bool
}

// Index is the names of one view. It is immutable.
type Index struct {
	cfg      Config
	view     *topology.View
	services *table.Map[string, *service] // by "service.namespace"
	ptr      *table.Map[netip.Addr, *ptr]
	hosts    int // names below all Services
	// namespaces counts the Services of each.
	namespaces *table.Map[string, int]
}

// New returns an index of nothing.
func New(cfg Config) *Index { return &Index{cfg: cfg, view: &topology.View{}} }

// Next is the index of a later view. It costs what changed.
func (x *Index) Next(v *topology.View) *Index {
	next := &Index{cfg: x.cfg, view: v, hosts: x.hosts}
	services, ptrs, namespaces := x.services.Edit(), x.ptr.Edit(), x.namespaces.Edit()
	for key := range v.Changed(x.view) {
		name := serviceName(key)
		if old, ok := services.Get(name); ok {
			x.setPTR(ptrs, name, old, false)
			services.Delete(name)
			next.hosts -= len(old.hosts)
		}
		_, was := x.view.Service(key)
		sv, is := v.Service(key)
		count(namespaces, key.Namespace, was, is)
		if !is {
			continue
		}
		if svc := x.cfg.service(sv); svc != nil {
			services.Set(name, svc)
			next.hosts += len(svc.hosts)
			x.setPTR(ptrs, name, svc, true)
		}
	}
	next.services, next.ptr, next.namespaces = services.Freeze(), ptrs.Freeze(), namespaces.Freeze()
	return next
}

// count counts a Service that was there, or is.
func count(namespaces *table.Edit[string, int], name string, was, is bool) {
	n, _ := namespaces.Get(name)
	switch {
	case is && !was:
		namespaces.Set(name, n+1)
	case was && !is && n == 1:
		namespaces.Delete(name)
	case was && !is:
		namespaces.Set(name, n-1)
	}
}

// Len is the number of Services and of names below them.
func (x *Index) Len() (services, hosts int) { return x.services.Len(), x.hosts }

func serviceName(key topology.ObjectKey) string {
	return strings.ToLower(key.Name + "." + key.Namespace)
}
