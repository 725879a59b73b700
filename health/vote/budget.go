package vote

import (
	"maps"
	"time"
)

// budget is how many nodes may be declared dead: whoever declares them, so each node counts
// all deaths that it hears of, for it may lead next. There are two purses, of a share of the unit
// each: for nodes that the cloud hears, and for those that it has lost, so that one that stands still
// for half a minute takes nothing of what one needs that died.
type budget struct {
	paid map[Member]*death
}

// death is that of a node.
type death struct {
	at    time.Time // when it was declared, as far as this node knows
	heard bool      // the cloud heard it then
	lost  bool      // the cloud called it lost while it was dead: it counts though it came back
	over  bool      // it came back
}

// note counts the death of a node, if it is not known already, or was within the window.
func (b *budget) note(now time.Time, cfg *Config, who Member, lost bool) {
	d := b.paid[who]
	if d == nil || d.over && now.Sub(d.at) >= cfg.Window {
		b.paid[who] = &death{at: now, heard: !lost, lost: lost}
		return
	}
	d.over, d.lost = false, d.lost || lost
}

// missed notes that the cloud calls a node lost.
func (b *budget) missed(who Member) {
	if d := b.paid[who]; d != nil && !d.over {
		d.lost = true
	}
}

// take reports whether a node may be declared dead, that the cloud has lost or not, of n nodes of
// which some are dead already. Where more than half are it is a storm, and nobody is. Who was dead
// before within the window is paid for. Who is lost after it was declared counts in both purses.
func (b *budget) take(now time.Time, cfg *Config, n, dead int, who Member, lost bool) bool {
	if 2*(dead+1) > n && n > 2 {
		return false
	}
	if d := b.paid[who]; d == nil || now.Sub(d.at) >= cfg.Window {
		spent := 0
		for other, d := range b.paid {
			if other != who && now.Sub(d.at) < cfg.Window && (lost && d.lost || !lost && d.heard) {
				spent++
			}
		}
		if spent >= max(1, int(cfg.Share*float64(n))) {
			return false
		}
		delete(b.paid, who)
	}
	b.note(now, cfg, who, lost)
	return true
}

// look finds who came back, and who died again. Who came back and was never lost took nothing, and
// neither did who was when its window is over.
func (b *budget) look(now time.Time, cfg *Config, dead, lost func(who Member) bool) {
	for who, d := range b.paid {
		if dead(who) {
			b.note(now, cfg, who, lost(who))
		} else {
			d.over = true
		}
	}
	maps.DeleteFunc(b.paid, func(_ Member, d *death) bool { return d.over && (!d.lost || now.Sub(d.at) >= cfg.Window) })
}
