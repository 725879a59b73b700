package statedir

import (
	"errors"
	"io/fs"
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

// What comes in time is had by who waits, what comes later by Late, and either
// once.
func TestReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := make(chan struct{})
		r := Read(func() (string, error) {
			<-disk
			return "kept", fs.ErrPermission
		})
		began := time.Now()
		if a, ok := r.Within(StartPatience); ok || time.Since(began) != StartPatience {
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

		soon := Read(func() (string, error) { return "kept", nil })
		if a, ok := soon.Within(StartPatience); !ok || a.Is != "kept" || a.Err != nil {
			t.Errorf("%v, %+v of a disk that answers", ok, a)
		}
		select {
		case a := <-soon.Late():
			t.Errorf("what was had came late, too: %+v", a)
		case <-(*Reading[string])(nil).Late():
			t.Error("nothing was read, and came")
		default:
		}
	})
}
