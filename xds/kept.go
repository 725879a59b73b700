package xds

import "github.com/gridmesh/gridmesh/xds/render"

// kept are the clusters that Envoy goes on with though nobody asked for them and they are
// preloaded no more, for the kernel may hand it connections to them. Where the kernel takes no
// write for hours, while namespaces come and go, they would fill Envoy's memory, and it would
// accept nobody: they have the room that is left by those which were asked for, and beside
// that an eighth of it, for who dials everything does not darken what was near.
type kept struct {
	served map[string]bool // that have a Service
	gone   map[string]bool // that have none any more, and go first
}

func newKept() kept { return kept{served: map[string]bool{}, gone: map[string]bool{}} }

func (k *kept) len() int { return len(k.served) + len(k.gone) }

func (k *kept) add(name string, served bool) {
	k.leave(name)
	if served {
		k.served[name] = true
	} else {
		k.gone[name] = true
	}
}

func (k *kept) leave(name string) {
	delete(k.served, name)
	delete(k.gone, name)
}

// drop takes one out; there is one.
func (k *kept) drop() string {
	for _, list := range []map[string]bool{k.gone, k.served} {
		for name := range list {
			k.leave(name)
			return name
		}
	}
	return ""
}

// keep reports whether Envoy goes on with a name that it holds and does not want any more.
func (s *subscription) keep(cat *render.Catalog, name string) bool {
	if !cat.Keeps || s.typeURL != render.ClusterType {
		return false
	}
	_, served := cat.ServiceOf(s.typeURL, name)
	s.kept.add(name, served)
	return true
}

// giveWay has what is kept beyond the room for it removed: a connection to one that has a
// Service fetches it again, as long as there is an agent, and room for it.
func (s *subscription) giveWay() {
	if s.room.most == 0 {
		return
	}
	for s.kept.len() > max(s.room.most/8, s.room.most-len(s.room.of)) {
		s.pending[s.kept.drop()] = true
		s.crowded = true
	}
}
