package soak

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// slowly is a cluster of which one thing after the other comes in order.
func slowly(things ...missing) func(context.Context) error {
	begin := time.Now()
	return func(ctx context.Context) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for i := range things {
			if since := time.Since(begin); since < time.Duration(i+1)*time.Minute {
				return &missing{things[i].node, things[i].check, fmt.Errorf("%w\nafter %s", things[i].err, since.Round(time.Second))}
			}
		}
		return nil
	}
}

func runs() error { return nil }

var errDial = errors.New("connection refused")

// A long wait says what it was for: the node, the check, and its last error.
func TestALongWaitSaysWhatItWasFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w waited
		took, err := w.until(t.Context(), runs, slowly(missing{"", "the nodes are ready", errDial}, missing{"b-1", "its agent is up to date", errDial}))
		got := w.unlessShort(took)
		if err != nil || took < 2*time.Minute {
			t.Fatalf("%s, %v", took, err)
		}
		for _, want := range []string{"; last waited from 1m0", "to 2m0s for b-1, its agent is up to date: connection refused after 2m0s", "; from 0s to 1m0s for the nodes are ready"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q lacks %q", got, want)
			}
		}
		if strings.Contains(got, "\n") {
			t.Errorf("%q is more than a line", got)
		}
	})
}

func TestAShortWaitSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w waited
		took, err := w.until(t.Context(), runs, slowly())
		if got := w.unlessShort(took); got != "" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// What the end of the wait made of the last look is not what is told, and of
// many spells the last are.
func TestAWaitThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute-time.Second)
		defer cancel()
		things := make([]missing, 10)
		for i := range things {
			things[i] = missing{fmt.Sprintf("n-%d", i), "the steady app answers", errDial}
		}
		var w waited
		took, err := w.until(ctx, runs, slowly(things...))
		got := w.unlessShort(took)
		if !errors.Is(err, errDial) || !strings.Contains(got, "for n-9, the steady app answers") || strings.Contains(got, "n-4") ||
			!strings.Contains(got, "for 5 more") || strings.Contains(got, context.DeadlineExceeded.Error()) {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// A program that has ended ends the wait, and is what is told of.
func TestWhatEndedIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, ended := time.Now(), errors.New("agent a-1 has ended")
		run := func() error {
			if time.Since(begin) > time.Second {
				return ended
			}
			return nil
		}
		var w waited
		took, err := w.until(t.Context(), run, slowly(missing{"a-1", "its agent is up to date", errDial}))
		if !errors.Is(err, ended) || took > 2*time.Second {
			t.Errorf("after %s: %v", took, err)
		}
	})
}
