package sim

import (
	"math"
	"time"
)

// When faults come and go.
const (
	deadFor    = 3 * time.Minute
	deathEvery = 8 * time.Minute // longer than the five minutes in which one death is believed
	cutFor     = 10 * time.Minute
	cutEvery   = 15 * time.Minute
	holdLeast  = 5 * time.Second
	holdMost   = 30 * time.Second
)

// prepare is what a fault changes before a unit begins.
func (f Fault) prepare(w *World) {
	if f.name != "clock" {
		return
	}
	for i := range w.nodes {
		w.nodes[i].clock = w.Between(-time.Hour, time.Hour)
	}
}

// begin has a fault come, and come again.
func (f Fault) begin(w *World) {
	n := len(w.nodes)
	switch f.name {
	case "crash":
		w.every(deathEvery, func() {
			i := w.rng.IntN(n)
			w.at(w.Between(0, 2*time.Minute), func() {
				w.crash(i)
				w.at(deadFor, func() { w.boot(i) })
			})
		})
	case "stall":
		w.holds(f.share, false)
	case "freeze":
		w.holds(f.share, true)
	case "loss":
		w.loss = f.share
	case "oneway":
		for _, i := range w.rng.Perm(n)[:max(1, n/5)] {
			w.nodes[i].loss = f.share
		}
	case "halves":
		w.cuts(n / 2)
	case "thirds":
		w.cuts(n / 3)
	case "uplink":
		w.every(cutEvery, func() { w.dark(f.value == "all") })
	case "restart":
		w.every(10*time.Second, func() { w.restart(w.rng.IntN(n), w.Between(time.Second, 5*time.Second)) })
	case "nat":
		for _, i := range w.rng.Perm(n)[:int(math.Ceil(f.share*float64(n)))] {
			w.nodes[i].natted = true
		}
		w.changed()
	}
}

// every has something happen, first at once.
func (w *World) every(d time.Duration, do func()) {
	do()
	w.at(d, func() { w.every(d, do) })
}

// holds has that share of the nodes stand still, on the average.
func (w *World) holds(share float64, whole bool) {
	mean := float64(holdLeast+holdMost) / 2 * (1 - share) / share
	for i := range w.nodes {
		var again func()
		again = func() {
			w.at(time.Duration(w.rng.ExpFloat64()*mean), func() {
				d := w.Between(holdLeast, holdMost)
				w.hold(i, d, whole)
				w.at(d, again)
			})
		}
		again()
	}
}

// cuts cuts the unit in two now and then, one part of which has so many nodes.
func (w *World) cuts(part int) {
	w.every(cutEvery, func() {
		of := make([]int, len(w.nodes))
		for _, i := range w.rng.Perm(len(w.nodes))[:part] {
			of[i] = 1
		}
		w.Tracef("the unit is cut in two: %d and %d nodes", part, len(w.nodes)-part)
		w.divide(func(i int) int { return of[i] })
		w.at(cutFor, func() {
			w.Tracef("the unit is one again")
			w.divide(func(int) int { return 0 })
		})
	})
}

// dark takes the uplinks of one node, or of all, for a while.
func (w *World) dark(all bool) {
	of := []int{w.rng.IntN(len(w.nodes))}
	if all {
		of = w.rng.Perm(len(w.nodes))
	}
	for _, i := range of {
		w.darken(i, true)
		w.at(cutFor, func() { w.darken(i, false) })
	}
}
