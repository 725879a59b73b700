package node

import "time"

// repairEvery is how often the kernel is looked at for what others removed,
// and how long a failed write waits for its next attempt at most.
const repairEvery = 5 * time.Second

// retryFirst is how long it waits for the first one; each next is twice as long.
const retryFirst = 100 * time.Millisecond

// pace says when to look at the kernel: every few seconds, and soon after
// something failed.
type pace struct {
	timer *time.Timer
	wait  time.Duration
}

func (p *pace) start() { p.timer, p.wait = time.NewTimer(repairEvery), repairEvery }

// hurry looks again soon, unless that is so already.
func (p *pace) hurry() {
	if p.wait == repairEvery {
		p.next(true)
	}
}

// What calls for looks while they fail gets a few at once, then one a second.
const (
	eagerBurst = 5
	eagerEvery = time.Second
)

func (l *loop) failing() bool { return l.failure != nil || l.broken != nil }

// next sets the time of the next look.
func (p *pace) next(failed bool) {
	switch {
	case !failed:
		p.wait = repairEvery
	case p.wait == repairEvery:
		p.wait = retryFirst
	default:
		p.wait = min(2*p.wait, repairEvery-1) // repairEvery itself is where nothing is wrong
	}
	p.timer.Reset(p.wait)
}
