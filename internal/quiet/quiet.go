// Package quiet says what may happen again and again, because somebody or something
// goes on with it, a few times at once and then now and then: no log fills a disk.
// Metrics count each time.
package quiet

import (
	"log/slog"
	"time"

	"github.com/gridmesh/gridmesh/internal/obs"
)

// How many lines of a kind are said at once, and how often one more.
const (
	Burst = 5
	Every = 10 * time.Minute
)

// Limit lets a few through at once, and then one each time that goes by. Its zero
// value is ready. It has one owner.
type Limit struct{ full time.Time } // when all of the few are there again

// Allow reports whether one more may go through.
func (l *Limit) Allow(now time.Time, few int, each time.Duration) bool {
	if l.full.Before(now) {
		l.full = now
	}
	if l.full.Sub(now) > time.Duration(few-1)*each {
		return false
	}
	l.full = l.full.Add(each)
	return true
}

// Change tells errors that are other ones than the last from those that go on. Its zero value is
// ready. It has one owner.
type Change struct{ last string }

// To reports whether an error is to be said; nil is nothing to say, and the next one is.
func (c *Change) To(err error) bool {
	was := c.last
	if c.last = ""; err != nil {
		c.last = err.Error()
	}
	return err != nil && c.last != was
}

// Line lets one kind of line through now and then. Its zero value is ready. It
// has one owner.
type Line struct {
	limit  Limit
	unsaid int // since the last that was said
}

// Say calls log with how many of these lines were left out before this one,
// unless it is one of them.
func (l *Line) Say(log func(msg string, args ...any), msg string, args ...any) {
	if !l.limit.Allow(time.Now(), Burst, Every) {
		l.unsaid++
		return
	}
	if l.unsaid > 0 {
		args = append(args, slog.Int(obs.KeyUnsaid, l.unsaid))
	}
	l.unsaid = 0
	log(msg, args...)
}
