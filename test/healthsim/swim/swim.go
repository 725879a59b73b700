package swim

import (
	"math"
	"time"

	"github.com/gridmesh/gridmesh/test/healthsim/sim"
)

const (
	period    = time.Second
	patience  = 500 * time.Millisecond // for an answer to a ping of its own
	indirect  = 3
	spread    = 3 // times log2(n+1): how often something is said
	mostSaid  = 6 // in a message
	pingBytes = 24
	saidBytes = 20
)

// suspicion is how long a node is suspected before it is dead.
func suspicion(log int) time.Duration { return time.Duration(3*log) * period }

type state uint8

const (
	alive state = iota
	suspect
	dead
)

// belief is what a node holds another for.
type belief struct {
	state       state
	incarnation uint16
	since       time.Duration
}

// said is a belief that is told.
type said struct {
	about       int32
	state       state
	incarnation uint16
}

// rumor is one that is still to be told.
type rumor struct {
	said
	left int
}

type agent struct {
	of     []belief
	order  []int32 // whom it pings next, from at on
	at     int
	rumors []rumor
	number uint64          // of the last ping
	waits  map[uint64]bool // pings without an answer yet
}

type unit struct {
	w     *sim.World
	nodes []agent
	log   int // of n+1, in whole
}

// New makes a unit in which no agent runs yet.
func New(w *sim.World) sim.Protocol {
	return &unit{w: w, nodes: make([]agent, w.Len()), log: int(math.Ceil(math.Log2(float64(w.Len() + 1))))}
}

// Start implements sim.Protocol.
func (u *unit) Start(i int) {
	n := u.w.Len()
	a := &u.nodes[i]
	*a = agent{of: make([]belief, n), order: make([]int32, 0, n), waits: map[uint64]bool{}}
	for o := range n {
		if o != i {
			a.order = append(a.order, int32(o))
		}
	}
	a.at = len(a.order)
	u.w.After(i, u.w.Between(0, period), func() { u.period(i) })
}

// Uplink implements sim.Protocol: it does not matter.
func (u *unit) Uplink(int, bool) {}

// period pings the next one that is not dead, and goes on.
func (u *unit) period(i int) {
	u.w.After(i, period, func() { u.period(i) })
	a := &u.nodes[i]
	for range a.order {
		if a.at >= len(a.order) {
			u.w.Rand().Shuffle(len(a.order), func(x, y int) { a.order[x], a.order[y] = a.order[y], a.order[x] })
			a.at = 0
		}
		target := int(a.order[a.at])
		a.at++
		if a.of[target].state != dead {
			u.probe(i, target)
			return
		}
	}
}

// probe pings a node, has others ping it where it does not answer, and suspects it where
// nobody has an answer by the end of the period.
func (u *unit) probe(i, target int) {
	a := &u.nodes[i]
	a.number++
	number := a.number
	a.waits[number] = true
	u.ping(i, target, func() { delete(a.waits, number) })
	u.w.After(i, patience, func() {
		if !a.waits[number] {
			return
		}
		for _, by := range u.some(i, target) {
			u.send(i, by, func() {
				u.ping(by, target, func() {
					u.send(by, i, func() { delete(a.waits, number) })
				})
			})
		}
	})
	u.w.After(i, period-time.Millisecond, func() {
		if a.waits[number] {
			delete(a.waits, number)
			if b := a.of[target]; b.state == alive {
				u.take(i, said{int32(target), suspect, b.incarnation})
			}
		}
	})
}

// ping sends one, and has something done when it is answered.
func (u *unit) ping(i, target int, answered func()) {
	u.send(i, target, func() {
		if b := u.nodes[target].of[i]; b.state != alive { // it is to know
			u.queue(target, said{int32(i), b.state, b.incarnation})
		}
		u.send(target, i, answered)
	})
}

// some are whom a node asks to ping another one for it.
func (u *unit) some(i, target int) (list []int) {
	a := &u.nodes[i]
	for _, k := range u.w.Rand().Perm(len(a.order)) {
		if o := int(a.order[k]); o != target && a.of[o].state == alive {
			if list = append(list, o); len(list) == indirect {
				break
			}
		}
	}
	return list
}
