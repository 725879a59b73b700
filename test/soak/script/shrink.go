package script

import (
	"slices"
	"time"
)

// squeezed is the longest gap that shrinking leaves between two steps.
const squeezed = 3 * time.Second

// Shrink looks for a shorter list that still fails, by leaving out halves,
// then quarters, and so on, and plays at most runs lists. What it returns has
// failed, or is steps itself.
func Shrink(steps []Step, runs int, fails func([]Step) bool) []Step {
	for n := 2; runs > 0 && len(steps) > 1; {
		size := (len(steps) + n - 1) / n
		smaller := false
		for i := 0; i < len(steps) && runs > 0; {
			rest := Squeeze(slices.Concat(steps[:i], steps[min(i+size, len(steps)):]))
			runs--
			if !fails(rest) {
				i += size
				continue
			}
			steps, smaller = rest, true
		}
		switch {
		case smaller:
			n = max(n-1, 2)
		case size == 1:
			return steps
		default:
			n = min(2*n, len(steps))
		}
	}
	return steps
}

// Squeeze shortens the gaps between steps, also that before the first.
func Squeeze(steps []Step) []Step {
	list := make([]Step, len(steps))
	var before, at time.Duration
	for i, s := range steps {
		at += min(s.At-before, squeezed)
		before = s.At
		list[i] = Step{at, s.Verb, s.Args}
	}
	return list
}

// Until are the steps up to some time: what came after a failure did not
// cause it.
func Until(steps []Step, end time.Duration) []Step {
	n := 0
	for n < len(steps) && steps[n].At <= end {
		n++
	}
	return steps[:n]
}
