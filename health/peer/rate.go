package peer

import "time"

// How many requests are looked at, a second and at once: of each node of the unit, and of all
// others together, who may be behind addresses that are none of the unit's.
const (
	ratePerSource  = 20
	burstPerSource = 100
)

// bucket is what is left of them.
type bucket struct {
	left float64
	at   time.Time
}

// spend takes one, of rate a second and as many at once as burst.
func (b *bucket) spend(now time.Time, rate, burst float64) bool {
	if b.at.IsZero() {
		b.left = burst
	}
	b.left = min(burst, b.left+rate*max(0, now.Sub(b.at).Seconds()))
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}
