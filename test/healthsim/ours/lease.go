package ours

import (
	"time"

	"github.com/gridmesh/gridmesh/health/vote"
)

// The times of the unit's Lease, as health has them.
const (
	leaseEvery    = 10 * time.Second // between two writes of who holds it
	leaseFor      = 20 * time.Second // without one it is anybody's
	leaseCounts   = 18 * time.Second // for its holder, from before the write began
	leaseLook     = 4 * time.Second  // how often the others look
	leaseTry      = 2 * time.Second  // after what failed
	leasePatience = 5 * time.Second  // of a request
	apiLag        = 50 * time.Millisecond
)

const nobody = -1

// lease is the unit's, in the cloud.
type lease struct {
	holder  int
	version int // 0: there is none yet
}

// quit is that a node said itself, at a time, that it has no uplink.
type quit struct {
	node int
	at   time.Duration
}

// holding is how one node holds the Lease, or waits for it, as health.HoldLease does.
type holding struct {
	u       *Unit
	i       int
	over    bool // it may no more
	waiting bool // and takes no turn
	turns   int  // another one with each turn
	quit    quit
	last    lease // as it was read or written last
	known   bool  // last is
	changed time.Duration
	until   time.Duration // it is held, by the truth's time; zero where it is not
}

// hold has a node begin to hold the Lease, or end, when whether it may changes.
func (u *Unit) hold(i int) {
	a := &u.nodes[i]
	if h := a.holding; h != nil {
		a.holding = nil
		h.end()
	}
	if a.may {
		a.holding = &holding{u: u, i: i, quit: quit{node: nobody}}
		a.holding.turn()
	}
}

// end gives back what is held.
func (h *holding) end() {
	h.over = true
	if h.until == 0 {
		return
	}
	h.tell(0)
	if h.u.w.Writes(h.i) && h.u.cloud.lease.version == h.last.version {
		h.u.cloud.take(nobody)
	}
}

// quits tells a node that another one has no uplink; while it takes its turn the last word counts.
func (u *Unit) quits(i, from int) {
	a := &u.nodes[i]
	a.quit = quit{from, u.w.Now()}
	if a.holding != nil && a.holding.waiting {
		a.holding.hear()
	}
}

// hear takes what was said of who has no uplink.
func (h *holding) hear() {
	a := &h.u.nodes[h.i]
	if a.quit.at == 0 {
		return
	}
	h.quit, a.quit = a.quit, quit{}
	if h.known && h.last.holder == h.quit.node {
		h.turn()
	}
}

// turn renews the Lease, takes it where it is free, or looks at it.
func (h *holding) turn() {
	h.waiting = false
	h.turns++
	w, at := h.u.w, h.u.w.Now()
	if !w.Writes(h.i) {
		w.After(h.i, leasePatience, func() { h.ends(at, leaseTry) })
		return
	}
	lag := func() time.Duration { return w.Between(time.Millisecond, apiLag) }
	if h.known && h.last.holder == h.i {
		w.After(h.i, lag(), func() { h.write(at) })
		return
	}
	w.After(h.i, lag(), func() { // what it reads
		if h.over {
			return
		}
		if c := &h.u.cloud; !h.known || h.last.version != c.lease.version {
			h.last, h.known, h.changed = c.lease, true, w.Now()
		}
		if h.until != 0 && h.last.holder != h.i {
			h.lose()
		}
		quits := h.last.holder == h.quit.node && h.quit.at > h.changed
		free := h.changed + leaseFor
		if h.last.holder != h.i && h.last.holder != nobody && !quits && at < free {
			h.ends(at, min(leaseLook, free-at))
			return
		}
		w.After(h.i, lag(), func() { h.write(at) })
	})
}

// write makes the Lease this node's: of nobody else in between.
func (h *holding) write(at time.Duration) {
	c, w := &h.u.cloud, h.u.w
	switch {
	case h.over:
		return
	case !w.Writes(h.i):
		h.ends(at, leaseTry)
		return
	case c.lease.version != h.last.version:
		h.known = false
		h.ends(at, leaseTry)
		return
	}
	c.take(h.i)
	h.last, h.changed = c.lease, w.Now()
	w.After(h.i, w.Between(time.Millisecond, apiLag), func() { // that it is told
		if h.over {
			return
		}
		h.tell(at + leaseCounts)
		h.ends(at, leaseEvery)
	})
}

// ends waits for the next turn, from the time at which one began.
func (h *holding) ends(at, wait time.Duration) {
	if h.over {
		return
	}
	now := h.u.w.Now()
	if h.until != 0 && now >= h.until {
		h.lose()
	}
	h.waiting = true
	turn := h.turns
	h.u.w.After(h.i, max(0, at+wait-now), func() {
		if !h.over && h.turns == turn {
			h.turn()
		}
	})
	h.hear()
}

func (h *holding) lose() { h.tell(0) }

// tell tells the machine until when this node holds the Lease.
func (h *holding) tell(until time.Duration) {
	h.until = until
	at := time.Time{}
	if until != 0 {
		at = h.u.now(h.i).Add(until - h.u.w.Now())
	}
	h.u.step(h.i, vote.Lease{Until: at})
}

// take makes the Lease a node's, or nobody's.
func (c *cloud) take(holder int) {
	if holder != c.lease.holder && holder != nobody {
		c.u.w.Tracef("%s has the Lease", c.u.w.Name(holder))
	}
	c.lease.holder = holder
	c.lease.version++
	c.u.w.Leased()
}
