package quiet

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A few lines are said at once, then one now and then, with how many were not; what
// was quiet for long begins anew.
func TestLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Line
		said, unsaid := 0, 0
		say := func(times int) {
			for range times {
				l.Say(func(_ string, args ...any) { said, unsaid = said+1, len(args) }, "again")
			}
		}
		expect := func(when string, lines, args int) {
			t.Helper()
			if said != lines || unsaid != args {
				t.Errorf("%s: %d lines, the last with %d more; want %d, %d", when, said, unsaid, lines, args)
			}
		}
		say(100)
		expect("at once", Burst, 0)
		time.Sleep(Every)
		say(100)
		expect("after a while", Burst+1, 1)
		time.Sleep(2 * Burst * Every)
		say(100)
		expect("after a long time", 2*Burst+1, 0)
	})
}

// An error that goes on is said once; another one is, and the same after it was gone.
func TestChange(t *testing.T) {
	a, b := errors.New("a"), errors.New("b")
	var c Change
	for i, step := range []struct {
		err  error
		said bool
	}{{nil, false}, {a, true}, {errors.New("a"), false}, {b, true}, {a, true}, {nil, false}, {a, true}} {
		if got := c.To(step.err); got != step.said {
			t.Errorf("step %d, %v: said %v, want %v", i, step.err, got, step.said)
		}
	}
}
