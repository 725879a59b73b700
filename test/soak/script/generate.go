package script

import (
	"math/rand/v2"
	"time"
)

const (
	// act is how long things are done before everything must be in order again:
	// longer than the longest of them.
	act = 80 * time.Second
	// gap is the time between two steps, on average.
	gap = 600 * time.Millisecond
)

// Generate makes the steps of a soak of some length. They follow from the
// seed, the world and the length alone.
func Generate(seed uint64, w World, length time.Duration) (steps []Step) {
	r := rand.New(rand.NewPCG(seed, 7))
	var at time.Duration
	calm := min(act, length)
	for {
		at += time.Duration(r.Int64N(int64(2*gap/time.Millisecond))) * time.Millisecond
		for at >= calm {
			steps = append(steps, Step{At: calm, Verb: Calm})
			if calm >= length {
				return steps
			}
			at, calm = max(at, calm), min(calm+act, length)
		}
		v := choose(r)
		s := Step{At: at, Verb: v.name}
		for _, a := range v.args {
			s.Args = append(s.Args, a.pick(r, w))
		}
		steps = append(steps, s)
	}
}

// choose draws a verb by its weight.
func choose(r *rand.Rand) *verb {
	total := 0
	for i := range verbs {
		total += weight(&verbs[i])
	}
	n := r.IntN(total)
	for i := range verbs {
		if n -= weight(&verbs[i]); n < 0 {
			return &verbs[i]
		}
	}
	panic("weights do not add up")
}

func weight(v *verb) int {
	if _, broken := knownBroken[v.name]; broken {
		return 0
	}
	return v.weight
}
