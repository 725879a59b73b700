package outage

import "time"

// Heard is the last sign of life, and what the clocks of the node said when somebody
// looked last. The zero Heard is of nobody who looked.
type Heard struct {
	at     time.Time     // zero: there was none
	booted time.Duration // how long after the boot that was
	looked Clocks
}

// Next is that with the newest sign of life, of which Booted is not known, at another look.
func (h Heard) Next(newest, now Clocks) Heard {
	if !newest.Now.Equal(h.at) {
		by := now
		if !h.looked.Now.IsZero() && !now.SleptBefore(newest, h.looked) {
			by = h.looked
		}
		h.at, h.booted = newest.Now, by.Booted-by.Now.Sub(newest.Now)
	}
	h.looked = now
	return h
}

// Shown is when that was, by the clock that people set as it is set now: it is as long ago
// as it is, whoever slept or set the clock since. Zero: there was none.
func (h Heard) Shown() time.Time {
	switch now := h.looked; {
	case h.at.IsZero():
		return h.at
	case now.Booted == 0:
		return now.Shown.Add(-now.Now.Sub(h.at))
	default:
		return now.Shown.Add(h.booted - now.Booted)
	}
}
