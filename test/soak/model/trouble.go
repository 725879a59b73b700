package model

import (
	"slices"
	"time"
)

// Effect is what a trouble excuses.
type Effect int

// The effects, to be joined by |.
const (
	Deaf     Effect = 1 << iota // the node does not act on what it is told
	Broken                      // connections through the node may fail
	Bare                        // packets to Services may leave the node unserved
	Nameless                    // names may not resolve on the node
	Absent                      // the agent does not run, and what others take from the node stays away
	Holding                     // endpoints of its own unit may be as they were before
)

// Trouble is something that is done to a node.
type Trouble struct {
	Node   string
	Effect Effect
	From   time.Time
	To     time.Time // zero: it goes on
}

// Troubles are all that was done.
type Troubles []Trouble

// Any reports whether a node had a trouble of an effect at some time between
// from and to.
func (l Troubles) Any(node string, e Effect, from, to time.Time) bool {
	return slices.ContainsFunc(l, func(t Trouble) bool { return t.hits(node, e, from, to) })
}

func (t Trouble) hits(node string, e Effect, from, to time.Time) bool {
	return t.Node == node && t.Effect&e != 0 && !t.From.After(to) && (t.To.IsZero() || !t.To.Before(from))
}

// Before is the latest time from which on a node had a whole grace without
// troubles of an effect up to at: what it was told by then is in force at at.
func (l Troubles) Before(node string, e Effect, at time.Time, grace time.Duration) time.Time {
	for from := at.Add(-grace); ; {
		earliest := from
		for _, t := range l {
			if begin := t.From.Add(-grace); t.hits(node, e, from, at) && begin.Before(earliest) {
				earliest = begin
			}
		}
		if earliest.Equal(from) {
			return from
		}
		from = earliest
	}
}
