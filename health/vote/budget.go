package vote

import (
	"maps"
	"time"
)

// budget is how many nodes may be declared dead: whoever declares them, so each node counts
// all deaths that it hears of, for it may lead next.
type budget struct {
	paid map[Member]*death
}

// death is that of a node.
type death struct {
	at   time.Time // when it was declared last, as far as this node knows
	over bool      // it came back
}

// note counts the death of a node, if it is not known already.
func (b *budget) note(now time.Time, who Member) {
	if d := b.paid[who]; d == nil || d.over {
		b.declared(now, who)
	}
}

func (b *budget) declared(now time.Time, who Member) { b.paid[who] = &death{at: now} }

// take reports whether a node may be declared dead, of n nodes of which some are dead
// already. Where more than half are it is a storm, and nobody is. Who was dead before within
// the window is paid for.
func (b *budget) take(now time.Time, cfg *Config, n, dead int, who Member) bool {
	if 2*(dead+1) > n && n > 2 {
		return false
	}
	spent := 0
	for other, d := range b.paid {
		if other != who && now.Sub(d.at) < cfg.Window {
			spent++
		}
	}
	if d := b.paid[who]; (d == nil || now.Sub(d.at) >= cfg.Window) && spent >= max(1, int(cfg.Share*float64(n))) {
		return false
	}
	b.declared(now, who)
	return true
}

// look finds who came back, and who died again, and drops who came back and whose window is
// over.
func (b *budget) look(now time.Time, cfg *Config, dead func(who Member) bool) {
	for who, d := range b.paid {
		switch {
		case !dead(who):
			d.over = true
		case d.over:
			b.declared(now, who)
		}
	}
	maps.DeleteFunc(b.paid, func(_ Member, d *death) bool { return d.over && now.Sub(d.at) >= cfg.Window })
}
