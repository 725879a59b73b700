package node

import "github.com/gridmesh/gridmesh/xds/render"

// catalogAgain takes the same view for what else the catalog depends on.
func (l *loop) catalogAgain() {
	if l.view == nil {
		return
	}
	changed := l.nextCatalog()
	l.xds.Update(l.catalog, changed)
}

// nextCatalog makes the catalog of the view that is in force.
func (l *loop) nextCatalog() (changed render.Changed) {
	l.catalog, changed = l.catalogs.Next(l.view, !l.live)
	l.inForce.Store(&inForce{l.view, l.catalog})
	return changed
}
