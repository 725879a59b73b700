package health

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/health/peer"
	"github.com/gridmesh/gridmesh/health/vote"
	"github.com/gridmesh/gridmesh/internal/obs"
)

// liveAfter is for how long a node reaches the cloud before it passes on who is in the unit:
// until then its watch may not have caught up.
const liveAfter = 30 * time.Second

// Adopt implements peer.Node: where this node has no uplink, it votes by the list of one that
// has, until the cloud tells it itself. A list without this node is none for it: it was moved, or
// removed, and what it says counts for nobody who knows that.
func (d *Daemon) Adopt(ctx context.Context, from string, list []peer.Member) {
	d.later(ctx, func(now time.Time) {
		if d.up || !slices.ContainsFunc(list, func(m peer.Member) bool { return m.Name == d.cfg.Vote.Self && m.UID == d.uidOf(m.Name) }) {
			return
		}
		u := Unit{Name: d.unit.Name}
		for _, m := range list {
			u.Members = append(u.Members, d.adopted(m))
		}
		slices.SortFunc(u.Members, byName)
		if u.hasNodesOf(&d.unit) {
			return
		}
		d.cfg.Log.Info("this node has no uplink, and was told by another one who is in its unit", obs.KeyUnit, u.Name, obs.KeyNode, from, obs.KeyMembers, len(list))
		d.lent = true
		d.take(now, u)
	})
}

func (d *Daemon) uidOf(name string) string {
	for _, m := range d.unit.Members {
		if m.Name == name {
			return m.UID
		}
	}
	return ""
}

// adopted is a member with what the cloud said of it, if it did.
func (d *Daemon) adopted(m peer.Member) Member {
	for _, own := range d.own.Members {
		if own.Name == m.Name && own.UID == m.UID {
			own.Addrs = m.Addrs
			return own
		}
	}
	return Member{Name: m.Name, UID: m.UID, Addrs: m.Addrs, untold: true}
}

// voters are the members as the vote knows them.
func (u *Unit) voters() []vote.Member {
	list := make([]vote.Member, 0, len(u.Members))
	for _, m := range u.Members {
		list = append(list, vote.Member{Name: m.Name, UID: m.UID})
	}
	return list
}

// ForPeers is the unit as the exchange knows it.
func (u *Unit) ForPeers(self string, live bool) peer.Unit {
	p := peer.Unit{Self: self, Live: live, Addrs: map[string][]netip.Addr{}, UIDs: map[string]string{}}
	for _, m := range u.Members {
		p.Addrs[m.Name], p.UIDs[m.Name] = m.Addrs, m.UID
	}
	p.View = vote.NewView(u.voters(), 0).ID // which needs nobody to observe
	return p
}

// pass has the exchange know who is in the unit, where that, or whether it is the cloud's word,
// is not as before.
func (d *Daemon) pass(now time.Time, changed bool) {
	live := d.up && !d.own.Kept && !d.lent && now.Sub(d.upSince) >= liveAfter
	if (changed || live != d.live) && d.cfg.OnUnit != nil {
		d.cfg.OnUnit(d.unit, live)
	}
	d.live = live
}
