package statedir

import (
	"testing"
	"testing/synctest"
	"time"
)

// Waits share their time: a disk that hangs costs a start no more of it for each
// of its files.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Budget{Of: StartPatience}
		time.Sleep(time.Minute) // it begins with the first wait
		for _, step := range []struct{ takes, left time.Duration }{{0, StartPatience}, {StartPatience / 2, StartPatience / 2}, {time.Hour, 0}} {
			time.Sleep(step.takes)
			if got := b.Left(); got != step.left {
				t.Errorf("%s later %s are left, want %s", step.takes, got, step.left)
			}
		}
	})
}
