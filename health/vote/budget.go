package vote

import (
	"slices"
	"time"
)

// budget is how many nodes may be declared dead.
type budget struct {
	spent []time.Time // when one was, the eldest first
}

// take reports whether one more may be, of n nodes of which some are dead already. Where
// more than half are it is a storm, and nobody is.
func (b *budget) take(now time.Time, cfg *Config, n, dead int) bool {
	b.spent = slices.DeleteFunc(b.spent, func(t time.Time) bool { return now.Sub(t) >= cfg.Window })
	if len(b.spent) >= max(1, int(cfg.Share*float64(n))) || 2*(dead+1) > n && n > 2 {
		return false
	}
	b.spent = append(b.spent, now)
	return true
}
