package quiet

import (
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
