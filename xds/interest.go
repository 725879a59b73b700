package xds

import "github.com/gridmesh/gridmesh/xds/render"

// subscribes reports whether Envoy wants the name.
func (s *subscription) subscribes(cat *render.Catalog, name string) bool {
	return s.names[name] || s.covered(cat, name)
}

// covered reports whether Envoy gets the name without asking for it.
func (s *subscription) covered(cat *render.Catalog, name string) bool {
	return s.wildcard && cat.InWildcard(s.typeURL, name)
}

// concerns reports whether a change of the name may have to be sent.
func (s *subscription) concerns(cat *render.Catalog, name string) bool {
	_, holds := s.sent[name]
	return holds || s.subscribes(cat, name)
}
