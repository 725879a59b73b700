package report

import "github.com/gridmesh/gridmesh/topology"

// Paths is how many frontends are served by what.
type Paths struct {
	Envoy  int `json:"envoy"`
	Kernel int `json:"kernel"`
	None   int `json:"none"`
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
	add := func(path topology.Path) {
		switch path {
		case topology.PathEnvoy:
			p.now.Envoy += n
		case topology.PathKernel:
			p.now.Kernel += n
		default:
			p.now.None += n
		}
	}
	for i := range s.Frontends {
		add(s.Frontends[i].Path)
	}
	for i := range s.Outside {
		add(s.Outside[i].Path)
	}
}
