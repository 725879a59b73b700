package outage

import "time"

// unsure is what a time by two clocks may differ by without anybody having slept, or set
// one: they are read one after the other.
const unsure = time.Second

// Clocks is what the clocks of a node say at one moment.
type Clocks struct {
	// Now is measured by: nobody sets it, and while the node is suspended or paused it stands.
	Now time.Time
	// Shown is what people set.
	Shown time.Time
	// Booted is how long ago the boot is, suspended or not; 0 where nobody knows.
	Booted time.Duration
}

// Slept is for how long the node may have slept since an earlier reading. A kernel
// that was suspended knows. That of a VM that was paused does not: what tells is that
// somebody sets its clock ahead, by as much as is an outage. Somebody may set it for
// another reason, and counts as well: what is held for nothing is bounded, and a unit that
// goes dark is not. A clock that is set by less, and again and again, tells nothing.
func (c Clocks) Slept(since Clocks) (slept time.Duration) {
	awake := c.Now.Sub(since.Now)
	if set := c.Shown.Sub(since.Shown) - awake; set >= After {
		slept = set
	}
	if suspended := c.Booted - since.Booted - awake; c.Booted > 0 && since.Booted > 0 && suspended >= unsure {
		slept = max(slept, suspended)
	}
	return slept
}

// SleptBefore reports whether a moment before this reading, of which Booted is not known,
// came after whatever sleep there was since an earlier one: whether the clock that people
// set had gone ahead of the other by then. Where it does not tell, the moment did: what is
// held for nothing is bounded.
func (c Clocks) SleptBefore(moment, since Clocks) bool {
	if !moment.Now.After(since.Now) {
		return false
	}
	ahead := func(of Clocks) time.Duration { return of.Shown.Sub(since.Shown) - of.Now.Sub(since.Now) }
	all, then := ahead(c), ahead(moment)
	if all < 0 {
		all, then = -all, -then
	}
	return all < unsure || then >= all/2
}
