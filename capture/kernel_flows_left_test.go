package capture

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// A look that failed is none any more once what it was for is gone.
func TestALookThatFailedForNothingThatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, failed := range []error{unix.EPERM, fmt.Errorf("%w: for the test", errNoConntrack)} {
			l, reported := &looked{err: failed}, error(nil)
			f := l.flows()
			f.report = func(err error) { reported = err }
			f.tell(serving(one, "10.244.0.1:53"))
			f.ended.Wait()
			f.tell(serving(one))
			_ = f.again()
			if f.err == nil {
				t.Errorf("%v: forgotten before its time", failed)
			}
			time.Sleep(longestPause)
			if err := f.again(); err != nil || f.err != nil || reported != nil {
				t.Errorf("%v: nothing is left, and said is %v, %v, reported %v", failed, err, f.err, reported)
			}
			f.tell(serving(one, "10.244.0.2:53"))
			f.ended.Wait()
			if !errors.Is(f.err, failed) || errors.Is(failed, errNoConntrack) != (reported != nil) {
				t.Errorf("it fails again: %v, reported %v", f.err, reported)
			}
			f.stop()
		}
	})
}
