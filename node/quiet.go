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

// quiet lets one kind of line through now and then. Its zero value is ready. It
// has one owner.
type quiet struct {
	full   time.Time // when all of the burst is there again
	unsaid int       // since the last that was
}

// say calls log with how many of these lines were left out before this one,
// unless it is one of them.
func (q *quiet) say(log func(msg string, args ...any), msg string, args ...any) {
	now := time.Now()
	if q.full.Before(now) {
		q.full = now
	}
	if q.full.Sub(now) > (quietBurst-1)*quietEvery {
		q.unsaid++
		return
	}
	q.full = q.full.Add(quietEvery)
	if q.unsaid > 0 {
		args = append(args, slog.Int(obs.KeyUnsaid, q.unsaid))
	}
	q.unsaid = 0
	log(msg, args...)
}
