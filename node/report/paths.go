package report

import "github.com/gridmesh/gridmesh/topology"

// Paths is how many frontends are to be served by what.
type Paths struct {
	Envoy  int `json:"envoy"`
	Kernel int `json:"kernel"`
	None   int `json:"none"`
	// Refused are those of Envoy and the kernel that this node may use no endpoint of: the
	// kernel refuses both, or drops. So many of them are Envoy's once there is one.
	Refused      int `json:"refused"`
	RefusedEnvoy int `json:"refusedOfEnvoy"`
}

// PathIndex keeps Paths as views go by.
type PathIndex struct {
	view *topology.View
	now  Paths
}

// Next takes a view.
func (p *PathIndex) Next(v *topology.View) Paths {
	for key := range v.Changed(p.view) {
		if was, ok := p.view.Service(key); ok {
			p.count(was, -1)
		}
		if is, ok := v.Service(key); ok {
			p.count(is, 1)
		}
	}
	p.view = v
	return p.now
}

func (p *PathIndex) count(s *topology.ServiceView, n int) {
	for i := range s.Frontends {
		p.now.add(s.Frontends[i].Path, len(s.Frontends[i].Tiers) == 0, n)
	}
	for i := range s.Outside {
		o := &s.Outside[i]
		p.now.add(o.Path, len(o.Tiers) == 0 && len(o.LocalTiers) == 0, n)
	}
}

func (p *Paths) add(path topology.Path, refused bool, n int) {
	switch path {
	case topology.PathEnvoy:
		p.Envoy += n
		if refused {
			p.RefusedEnvoy += n
		}
	case topology.PathKernel:
		p.Kernel += n
	default:
		p.None += n
		return // there is nobody to refuse it
	}
	if refused {
		p.Refused += n
	}
}
