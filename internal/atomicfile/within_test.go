package atomicfile

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestWithin(t *testing.T) {
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		takes  time.Duration
		err    error
		want   int
		fails  error
		latest int // what comes late
	}{
		"at once":           {0, nil, 7, nil, 0},
		"an error":          {0, broken, 7, broken, 0},
		"in time":           {time.Second, nil, 7, nil, 0},
		"too late":          {time.Minute, nil, 0, ErrLate, 7},
		"an error too late": {time.Minute, broken, 0, ErrLate, 7},
	} {
		synctest.Test(t, func(t *testing.T) {
			began, latest := time.Now(), 0
			ask := func() (int, error) { time.Sleep(tc.takes); return 7, tc.err }
			got, err := Within(2*time.Second, ask, func(is int, err error) {
				latest = is
				if !errors.Is(err, tc.err) {
					t.Errorf("%s: late %v", name, err)
				}
			})
			if took := time.Since(began); got != tc.want || !errors.Is(err, tc.fails) || took > 2*time.Second {
				t.Errorf("%s: %d and %v after %s", name, got, err, took)
			}
			_, _ = Within(2*time.Second, ask, nil) // nobody is told
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if latest != tc.latest {
				t.Errorf("%s: late %d, want %d", name, latest, tc.latest)
			}
		})
	}
}
