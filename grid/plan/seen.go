package plan

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sighting is a time of a wall clock, as a status, a child or a node has it, by the clock of this
// process, which nobody sets: what passes since it was first seen does so by that. Before that
// the wall clocks count, for nobody else was there.
type sighting struct {
	stamp time.Time
	at    time.Time // with a monotonic reading, where the times that plans are made at have one
}

// of is when a stamp was, no later than now.
func (s *sighting) of(stamp, now time.Time) time.Time {
	if s.at.IsZero() || !s.stamp.Equal(stamp) {
		s.stamp, s.at = stamp, now.Add(-max(0, now.Sub(stamp)))
	}
	return s.at
}

// believed is a time of the status as it is to be there: one that was seen here stays, also where
// the clock was set back since; others are as believed has them.
func (s *sighting) believed(at *metav1.Time, now time.Time) *metav1.Time {
	if at == nil {
		return nil
	}
	if s.at.IsZero() || !s.stamp.Equal(at.Time) {
		at = believed(at, now)
	}
	s.of(at.Time, now)
	return at.DeepCopy()
}

// believed is a time of the status. One that is yet to come is of a clock that
// was wrong, and would hold up what counts from it until then: it is now, and
// stands so in the next status.
func believed(at *metav1.Time, now time.Time) *metav1.Time {
	latest := wholeSecond(now)
	if at == nil || !at.After(latest.Time) {
		return at.DeepCopy()
	}
	return &latest
}

// wholeSecond is the next one: a status knows no others, and what is waited
// for from then on must not be short.
func wholeSecond(t time.Time) metav1.Time {
	return metav1.Time{Time: t.Add(time.Second - 1).Truncate(time.Second)}
}
