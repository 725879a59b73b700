// Package wait waits for what comes when it does: a condition is looked at
// until it holds, with a deadline that only something broken reaches.
package wait

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Patience is how long anything may take that promises no time. The slowest
// machine that was seen, one core with race detectors, needed a fifth of it
// for the longest step, the start of a cluster of six nodes.
const Patience = 5 * time.Minute

// The pause between two looks grows, for looking costs a busy machine, too: to a twentieth of what
// was waited, within bounds.
const (
	firstPause   = 10 * time.Millisecond
	usualPause   = 50 * time.Millisecond
	longestPause = 250 * time.Millisecond
	share        = 20
)

func nextPause(last, waited time.Duration) time.Duration {
	return max(min(last*5/4, usualPause), min(waited/share, longestPause))
}

// Until calls f until it succeeds or ctx ends. The error then is ctx's, with
// the last one of f.
func Until(ctx context.Context, f func() error) error {
	var last error
	start := time.Now()
	for pause := firstPause; ; pause = nextPause(pause, time.Since(start)) {
		err := f()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // and not what the end of ctx made of it
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), last)
		}
	}
}

// For waits for what is named, at most Patience, and returns how long it took.
func For(ctx context.Context, what string, f func() error) (time.Duration, error) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	err := Until(ctx, f)
	took := time.Since(start)
	if err != nil {
		err = fmt.Errorf("waited %s for %s: %w", round(took), what, err)
	}
	return took, err
}

// T is what a test gives.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Eventually waits in a test for what promises no time, and logs how long it
// took.
func Eventually(t T, f func() error) time.Duration {
	t.Helper()
	return Within(t, Patience, f)
}

// Within is Eventually for a promise: d is what is promised, and where the
// promise is of an idle machine, five times what the slowest one needed.
func Within(t T, d time.Duration, f func() error) time.Duration {
	t.Helper()
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	err := Until(ctx, f)
	took := time.Since(start)
	if err != nil {
		t.Fatalf("not within %s: %v", d, err)
	}
	if took > firstPause { // what was there at once was not waited for
		t.Logf("waited %s of at most %s", round(took), d)
	}
	return took
}

func round(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(10 * time.Millisecond)
}

// Holds fails a test unless f succeeds for as long as d: what must not happen
// is looked for all the while, and not once at the end.
func Holds(t T, d time.Duration, f func() error) {
	t.Helper()
	for start := time.Now(); ; time.Sleep(usualPause) {
		err := f()
		since := time.Since(start)
		if err != nil {
			t.Fatalf("after %s of %s: %v", round(since), d, err)
		}
		if since >= d {
			return
		}
	}
}

// Settled waits until what f returns has been the same for as long as calm,
// and returns it: others may still write about what was done before.
func Settled[V comparable](t T, calm time.Duration, f func() V) V {
	t.Helper()
	last, since := f(), time.Now()
	Eventually(t, func() error {
		if now := f(); now != last {
			last, since = now, time.Now()
		}
		if quiet := time.Since(since); quiet < calm {
			return fmt.Errorf("%v has been the same for %s only", last, round(quiet))
		}
		return nil
	})
	return last
}
