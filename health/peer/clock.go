package peer

import "time"

// For how long what was sent counts, and how far ahead of its receiver a sender may be, who
// does not know how long the way back took.
const (
	window = 30 * time.Second
	ahead  = 5 * time.Second
)

// clock is this node's own counting, which a change of the time of day does not touch.
type clock struct {
	epoch string // another one after a restart: what was sent before it counts no more
	began time.Time
}

// at is a time in this counting.
func (c *clock) at(now time.Time) int64 { return now.Sub(c.began).Milliseconds() }

// counts reports whether what was sent at a time, as its sender took it to be here, counts.
func (c *clock) counts(now time.Time, epoch string, sent int64) bool {
	here := c.at(now)
	return epoch == c.epoch && sent >= here-window.Milliseconds() && sent <= here+ahead.Milliseconds()
}

// theirs is what another node's clock said, and when that was here.
type theirs struct {
	epoch string
	said  int64
	at    time.Time
}

// now is what it says by now, or a little less: nothing is known of the way it took.
func (t theirs) now(now time.Time) int64 { return t.said + now.Sub(t.at).Milliseconds() }
