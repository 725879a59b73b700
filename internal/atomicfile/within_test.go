package atomicfile

import (
	"errors"
	"io/fs"
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

// What comes in time is had by who waits, what comes later by Late, and either
// once.
func TestAsk(t *testing.T) {
	const patience = time.Second
	synctest.Test(t, func(t *testing.T) {
		disk := make(chan struct{})
		r := Ask(func() (string, error) {
			<-disk
			return "kept", fs.ErrPermission
		})
		began := time.Now()
		if a, ok := r.Within(patience); ok || time.Since(began) != patience {
			t.Errorf("%+v of a disk that hangs, after %s", a, time.Since(began))
		}
		close(disk)
		if a := <-r.Late(); a.Is != "kept" || !errors.Is(a.Err, fs.ErrPermission) {
			t.Errorf("late came %+v", a)
		}
		synctest.Wait()
		select {
		case a := <-r.Late():
			t.Errorf("it came twice: %+v", a)
		default:
		}

		soon := Ask(func() (string, error) { return "kept", nil })
		if a, ok := soon.Within(patience); !ok || a.Is != "kept" || a.Err != nil {
			t.Errorf("%v, %+v of a disk that answers", ok, a)
		}
		select {
		case a := <-soon.Late():
			t.Errorf("what was had came late, too: %+v", a)
		case <-(*Asked[string])(nil).Late():
			t.Error("nothing was read, and came")
		default:
		}
	})
}
