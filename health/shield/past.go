package shield

import "time"

// Renewed notes that the unit's Lease is seen to be renewed.
func (u *Unit) Renewed(now time.Time, c Config) {
	u.told(now, c)
	u.Heard = now
}

// Voted notes that a vote of the unit is seen to be written: it has an uplink, or had one just
// now, though its Lease may be seen later.
func (u *Unit) Voted(now time.Time, c Config) { u.told(now, c) }

// told notes the first word after a silence.
func (u *Unit) told(now time.Time, c Config) {
	if !u.Heard.IsZero() && now.Sub(u.Heard) > c.Silent && now.Sub(u.Again) > c.Silent {
		u.Again = now
	}
}
