package node

import (
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/node/envoy"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds/render"
)

// catalogAgain takes the same view for what else the catalog depends on.
func (l *loop) catalogAgain() {
	if l.view == nil {
		return
	}
	l.tellEnvoy(l.nextCatalog(), true)
}

// tellEnvoy gives Envoy the catalog. Where the kernel may hand it more than that, as by rules of a
// run before, or where a write failed, it keeps what it holds.
func (l *loop) tellEnvoy(changed render.Changed, retracted bool) {
	l.inLine = l.inLine && retracted
	if l.inLine {
		l.xds.Update(l.catalog, changed)
	} else {
		l.xds.Update(l.catalog.Keeping(), changed)
	}
}

// releaseEnvoy lets Envoy forget what it kept, once the kernel holds a whole view.
func (l *loop) releaseEnvoy(written bool) {
	was := l.inLine
	l.inLine = written && l.live
	if l.inLine && !was {
		l.xds.Update(l.catalog, nil)
	}
}

// nextCatalog makes the catalog of the view that is in force.
func (l *loop) nextCatalog() (changed render.Changed) {
	l.catalogs.At(time.Now())
	l.catalog, changed = l.catalogs.Next(l.view, !l.live)
	l.inForce.Store(&envoy.InForce{View: l.view, Catalog: l.catalog})
	return changed
}

// preloadDemanded makes what Envoy asked for by name a part of what it holds
// after a restart of its own, as far as that is bounded.
func (l *loop) preloadDemanded() {
	for _, name := range l.demand.Take() {
		if l.exists(name) {
			l.used.Ask(name)
		}
	}
	l.admit()
}

// admit preloads what waits for it, as fast as that is allowed.
func (l *loop) admit() {
	if l.used.Admit(time.Now()) {
		l.preloadUsed()
		l.changed()
	}
}

// exists reports whether a cluster is a Service's.
func (l *loop) exists(name string) bool {
	_, ok := l.catalog.Entry(name)
	return ok
}

// mayExist reports whether a cluster is a Service's, as far as anybody can tell: the last good
// state lacks Services.
func (l *loop) mayExist(name string) bool { return !l.live || l.exists(name) }

// ageUsed lets go of what is no Service's, or nobody's to use, for long, and takes what
// is near no more. It reports whether others are kept.
func (l *loop) ageUsed() (others bool) {
	forgot := l.used.Age(l.mayExist, time.Now())
	others = forgot || len(l.catalogs.Fallen()) > 0
	if others {
		l.preloadUsed()
		l.publish()
	}
	return others
}

// ageHeld does so for what was near: also while Envoy says nothing of what it uses, and
// nothing is saved.
func (l *loop) ageHeld(now time.Time) {
	if l.view != nil && (l.used.AgeHeld(l.mayExist, now) || len(l.catalogs.Fallen()) > 0) {
		l.preloadUsed()
		l.changed()
	}
}

// preloadUsed has Envoy hold what is kept as used.
func (l *loop) preloadUsed() {
	if l.tellUsed() {
		l.catalogAgain()
	}
}

// tellUsed says what is used, with what fell meanwhile, and reports whether another
// catalog may come of it.
func (l *loop) tellUsed() bool {
	l.used.Hold(l.catalogs.Fallen(), time.Now())
	return l.catalogs.Used(l.used.Idle(), l.used.Names())
}

// noteUse takes what Envoy had connections to: that is what is kept as used.
func (l *loop) noteUse() {
	look, ok := l.envoy.Get()
	if !ok || look.Err != nil || l.view == nil {
		return
	}
	names := slices.DeleteFunc(slices.Clone(look.InUse), func(name string) bool {
		entry, ok := l.catalog.Entry(name)
		return !ok || entry.Frontend.Protocol != topology.TCP // UDP has a way of its own
	})
	moved, others := l.used.InUse(names, look.Ejections.At), l.ageUsed()
	if moved {
		l.preloadUsed()
	}
	if moved || others {
		l.changed()
	}
	l.admit()
}
