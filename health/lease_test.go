package health

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
)

// Each change of a Node of the unit tells the unit again, and so may the vote: the Lease is
// held on through that, and given up and taken where something is another.
func TestALeaseIsHeldOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		units, may := make(chan string), make(chan bool)
		var said []string
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			holdWhile(ctx, units, may, func(ctx context.Context, unit string) {
				said = append(said, "holds "+unit)
				<-ctx.Done()
				said = append(said, "held "+unit)
			})
		}()
		told := func(what string, want ...string) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(said, want) {
				t.Errorf("%s: %s, want %s", what, said, want)
			}
			said = nil
		}
		told("nothing is known")
		units <- "a"
		told("it may not")
		may <- true
		told("it may", "holds a")
		for i := range 3 {
			units <- "a"
			may <- true
			told(fmt.Sprint("told again, ", i))
		}
		units <- "b"
		told("another unit", "held a", "holds b")
		may <- false
		told("it may not any more", "held b")
		units <- "c"
		may <- true
		told("another unit, and it may", "holds c")
		cancel()
		<-ended
		told("the end", "held c")
	})
}
