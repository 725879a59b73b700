package node

import "time"

// damper lets something be so at once, and be over only after it has been over for
// some time: twice as long each time that it comes back, up to a bound, until it has
// stayed away. It knows no clock, and has one owner.
type damper struct {
	first, most time.Duration // how long it has to be over, at first and at most
	calm        time.Duration // how long it has to stay away to count as new

	so    bool      // what counts
	since time.Time // since when it is over, while it counts; zero where it is not
	ended time.Time // when it last ceased to count; zero for never
	wait  time.Duration
}

// take takes what is so by an answer of that time, and returns what counts.
func (d *damper) take(so bool, at time.Time) bool {
	switch {
	case so && !d.so:
		d.begin(d.ended.IsZero() || at.Sub(d.ended) >= d.calm)
	case so && !d.since.IsZero():
		d.begin(false)
	case !so && d.so && d.since.IsZero():
		d.since = at
	}
	if d.so && !d.since.IsZero() && at.Sub(d.since) >= d.wait {
		d.so, d.since, d.ended = false, time.Time{}, at
	}
	return d.so
}

// begin lets it count from now on, as something new, or once more.
func (d *damper) begin(fresh bool) {
	d.so, d.since = true, time.Time{}
	if d.wait = min(max(2*d.wait, d.first), d.most); fresh {
		d.wait = d.first
	}
}

// unknown is where there is no answer: what counts stays, and only answers show
// that it is over.
func (d *damper) unknown() { d.since = time.Time{} }

// until is when it ceases to count, if it stays over; zero where it does not count
// or is not over.
func (d *damper) until() time.Time {
	if d.since.IsZero() {
		return time.Time{}
	}
	return d.since.Add(d.wait)
}
