package health

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/health/check"
	"github.com/gridmesh/gridmesh/health/vote"
	"github.com/gridmesh/gridmesh/internal/obs"
)

// elsewhereFor is for how long a node is looked for where it said something: it reports each
// round, to a few, and who does not take it is tried again a minute later.
const elsewhereFor = 3 * time.Minute

// spokenAt is an address from which a node spoke that is none of its Node's.
type spokenAt struct {
	addr netip.Addr
	at   time.Time
}

// locate notes where nodes are checked: at the first address that is theirs alone. Of an address
// that two have nothing is concluded: of a node that died a new machine may have it, and answer.
func (d *Daemon) locate(u Unit) {
	of, shared, in := map[netip.Addr]string{}, map[netip.Addr]string{}, map[string]bool{}
	for _, m := range u.Members {
		in[m.Name] = true
		for _, a := range m.Addrs {
			if other, had := of[a]; had && other != m.Name {
				shared[a] = other + " " + m.Name
			}
			of[a] = m.Name
		}
	}
	clear(d.addrs)
	for _, m := range u.Members {
		for _, a := range m.Addrs {
			if shared[a] == "" {
				d.addrs[m.Name] = a
				break
			}
		}
	}
	for a, who := range shared {
		if d.shared[a] != who {
			d.cfg.Log.Warn("two nodes have one address: which of them is well is not known by it; delete the Node that is gone", obs.KeyWhich, who, obs.KeyName, a.String())
		}
	}
	d.shared = shared
	maps.DeleteFunc(d.moved, func(name string, p spokenAt) bool { _, had := of[p.addr]; return had || !in[name] })
}

// Elsewhere implements peer.Node. A node that began anew without an uplink may have got another
// address, and the cloud's list has the old one: it is looked for where it speaks, too, and what it
// says still counts for nothing there.
func (d *Daemon) Elsewhere(ctx context.Context, node string, at netip.Addr) {
	d.later(ctx, func(now time.Time) {
		if !d.isElsewhere(node, at) { // a newer list was taken meanwhile
			return
		}
		if d.moved[node].addr != at {
			d.cfg.Log.Warn("a node speaks from an address that its Node has not: it is looked for there, too, and its reports do not count: if it is behind NAT, all need --nat", obs.KeyNode, node, obs.KeyName, at.String())
		}
		d.moved[node] = spokenAt{at, now}
		d.step(now, vote.Spoke{From: node})
	})
}

// isElsewhere reports whether a node of the unit would be at no Node's address there.
func (d *Daemon) isElsewhere(node string, at netip.Addr) (in bool) {
	for _, m := range d.unit.Members {
		if slices.Contains(m.Addrs, at) {
			return false
		}
		in = in || m.Name == node
	}
	return in
}

// place is where a node is checked: its own address, not valid where none is its alone, and the one
// from which it spoke a moment ago. That may be a router's: it is known by no failure there.
func (d *Daemon) place(now time.Time, name string) check.Target {
	t := check.Target{Node: name, Addr: d.addrs[name]}
	if p, ok := d.moved[name]; ok && now.Sub(p.at) <= elsewhereFor {
		t.Spoke = p.addr
	}
	return t
}
