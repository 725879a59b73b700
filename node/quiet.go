package node

import (
	"log/slog"
	"time"

	"github.com/gridmesh/gridmesh/internal/obs"
)

// What may happen again and again, because somebody or something goes on with
// it, is said a few times at once and then now and then: no log fills a disk.
// Metrics count each time.
const (
	quietBurst = 5
	quietEvery = 10 * time.Minute
)

// limit lets a few through at once, and then one each time that goes by. Its zero
// value is ready. It has one owner.
type limit struct{ full time.Time } // when all of the few are there again

func (l *limit) allow(now time.Time, few int, each time.Duration) bool {
	if l.full.Before(now) {
		l.full = now
	}
	if l.full.Sub(now) > time.Duration(few-1)*each {
		return false
	}
	l.full = l.full.Add(each)
	return true
}

// quiet lets one kind of line through now and then. Its zero value is ready. It
// has one owner.
type quiet struct {
	limit  limit
	unsaid int // since the last that was said
}

// say calls log with how many of these lines were left out before this one,
// unless it is one of them.
func (q *quiet) say(log func(msg string, args ...any), msg string, args ...any) {
	if !q.limit.allow(time.Now(), quietBurst, quietEvery) {
		q.unsaid++
		return
	}
	if q.unsaid > 0 {
		args = append(args, slog.Int(obs.KeyUnsaid, q.unsaid))
	}
	q.unsaid = 0
	log(msg, args...)
}
