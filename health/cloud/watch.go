package cloud

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/quiet"
	"github.com/gridmesh/gridmesh/kube/typed"
)

// watched is what is watched of a cluster. One goroutine owns it.
type watched struct {
	nodes         *typed.Mirror[node]
	leases        *typed.Mirror[lease]
	shield, units *typed.Mirror[map[string]string]
	namespace     string
	leaseOf       map[string]string // the unit of each Lease
}

// lease is what is kept of a unit's Lease.
type lease struct {
	unit    string
	renewed renewal
}

// begin watches until ctx ends, and waits until all was listed, and says why that does not come;
// false where ctx ended before.
func (w *watched) begin(ctx context.Context, cfg *Config, m *Metrics) bool {
	for _, run := range []func(context.Context) error{w.nodes.Run, w.leases.Run, w.shield.Run, w.units.Run} {
		go func() { _ = run(ctx) }()
	}
	tick := time.NewTicker(cfg.Every)
	defer tick.Stop()
	var said quiet.Limit
	for _, ready := range []<-chan struct{}{w.nodes.Ready(), w.leases.Ready(), w.shield.Ready(), w.units.Ready()} {
		for there := false; !there; {
			select {
			case <-ready:
				there = true
			case now := <-tick.C:
				m.heard(w.nodes.Fault(), w.leases.Fault())
				fault := w.fault()
				if cfg.tell(fault); fault != nil && said.Allow(now, 1, quiet.Every) {
					cfg.Log.Warn("nobody is shielded, for it is not known yet how nodes are", obs.KeyErr, fault)
				}
			case <-ctx.Done():
				return false
			}
		}
	}
	return true
}

func (w *watched) fault() error {
	return errors.Join(w.nodes.Fault(), w.leases.Fault(), w.shield.Fault(), w.units.Fault())
}

// follow tells a keeper what has changed.
func (w *watched) follow(k *Keeper, now time.Time) {
	for _, c := range w.nodes.Take() {
		if k.world.setVersions(now, c.Key, c.Versions) {
			k.units.changed = true
		}
	}
	for _, name := range w.leases.Changes() {
		l, ok := w.leases.Get(name)
		if was, had := w.leaseOf[name]; had && (!ok || was != l.unit) {
			k.world.setLease(now, was, renewal{}, true)
			delete(w.leaseOf, name)
		}
		if ok && strings.TrimSpace(l.unit) != "" {
			w.leaseOf[name] = l.unit
			k.world.setLease(now, l.unit, l.renewed, false)
		}
	}
	if len(w.shield.Changes()) > 0 {
		k.found(w.shield.Get(w.namespace + "/" + names.Shield))
	}
	if len(w.units.Changes()) > 0 {
		table, _ := w.units.Get(w.namespace + "/" + names.Units) // nil where it is gone
		k.units.found(table)
	}
}
