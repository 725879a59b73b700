package nodetest

import (
	"fmt"
	"time"
	"unsafe"
)

// Moment is a time of this process whose clock is set meanwhile: so long after another
// by the clock that nobody sets, and so long by the one that is shown.
func Moment(from time.Time, later, shown time.Duration) time.Time {
	at := from.Add(shown)
	(*struct {
		wall uint64
		ext  int64 // of a time that has both, what nobody sets
		loc  *time.Location
	})(unsafe.Pointer(&at)).ext += int64(later - shown)
	if at.Sub(from) != later || at.Round(0).Sub(from.Round(0)) != shown {
		panic(fmt.Sprintf("%s after %s: the standard library keeps times otherwise by now, or one of these has a single clock", at, from))
	}
	return at
}
