package wait

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var errNotYet = errors.New("not yet")

// after is a condition that holds once some time has passed.
func after(d time.Duration) func() error {
	begin := time.Now()
	return func() error {
		if time.Since(begin) < d {
			return errNotYet
		}
		return nil
	}
}

func TestForReturnsSoonAfterTheConditionHolds(t *testing.T) {
	for _, d := range []time.Duration{0, time.Millisecond, time.Second, 2 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			took, err := For(t.Context(), "a condition", after(d))
			if err != nil || took < d || took > d+min(max(usualPause, d/share), longestPause) {
				t.Errorf("a condition that held after %s: %s, %v", d, took, err)
			}
		})
	}
}

func TestForSaysWhatItWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := For(t.Context(), "the Service", func() error { return errNotYet })
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errNotYet) || !strings.Contains(err.Error(), "waited 5m0s for the Service") {
			t.Error(err)
		}
	})
}

// What the end of the wait made of the last look is not what is told.
func TestUntilKeepsTheLastErrorFromBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := Until(ctx, func() error {
			if ctx.Err() != nil {
				return fmt.Errorf("dial: %w", ctx.Err())
			}
			return errNotYet
		})
		if !errors.Is(err, errNotYet) || strings.Contains(err.Error(), "dial") {
			t.Error(err)
		}
	})
}

// record is a test that is looked at.
type record struct{ logged, failed string }

func (r *record) Helper()                           {}
func (r *record) Logf(format string, args ...any)   { r.logged = fmt.Sprintf(format, args...) }
func (r *record) Fatalf(format string, args ...any) { r.failed = fmt.Sprintf(format, args...) }

func TestWithinLogsOrFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r record
		if took := Within(&r, time.Minute, after(time.Second)); took < time.Second || r.failed != "" || !strings.Contains(r.logged, "of at most 1m0s") {
			t.Errorf("%s, %+v", took, r)
		}
		r = record{}
		Within(&r, time.Second, after(time.Minute))
		if !strings.Contains(r.failed, "not within 1s") || !strings.Contains(r.failed, errNotYet.Error()) {
			t.Errorf("%+v", r)
		}
	})
}

func TestHoldsLooksAllTheWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var r record
		Holds(&r, 3*time.Second, func() error { return nil })
		if took := time.Since(begin); r.failed != "" || took < 3*time.Second {
			t.Errorf("%s, %+v", took, r)
		}
		begin = time.Now()
		once := func() error { // only for a moment, in the middle
			if d := time.Since(begin); d > time.Second && d < time.Second+2*longestPause {
				return errNotYet
			}
			return nil
		}
		Holds(&r, 3*time.Second, once)
		if !strings.Contains(r.failed, errNotYet.Error()) {
			t.Errorf("%+v", r)
		}
	})
}

func TestSettledWaitsForCalm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var r record
		got := Settled(&r, 2*time.Second, func() int { return min(int(time.Since(begin).Seconds()), 5) })
		if took := time.Since(begin); got != 5 || took < 7*time.Second || took > 8*time.Second {
			t.Errorf("%d after %s", got, took)
		}
	})
}
