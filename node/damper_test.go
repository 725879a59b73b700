package node

import (
	"testing"
	"time"
)

// It begins at once, is over when it has been for some time, and the longer the
// more often it comes back; what stays away for long begins anew.
func TestDamper(t *testing.T) {
	d := damper{first: 3 * time.Second, most: 10 * time.Second, calm: time.Minute}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, step := range []struct {
		after time.Duration
		so    bool
		want  bool
		until time.Duration // from now; 0: none
	}{
		{0, false, false, 0},
		{1, true, true, 0},
		{1, false, true, 3},
		{2, false, true, 1},
		{1, false, false, 0},
		{5, true, true, 0}, // it came back soon
		{1, false, true, 6},
		{5, true, true, 0}, // and before it was over
		{1, false, true, 10},
		{10, false, false, 0},
		{59, true, true, 0},
		{1, false, true, 10}, // never longer
		{10, false, false, 0},
		{60, true, true, 0}, // it was away
		{1, false, true, 3},
		{90, false, false, 0}, // nobody had to look at the very moment
	} {
		now = now.Add(step.after * time.Second)
		if got := d.take(step.so, now); got != step.want {
			t.Errorf("step %d: %v counts, want %v", i, got, step.want)
		}
		var want time.Time
		if step.until > 0 {
			want = now.Add(step.until * time.Second)
		}
		if !d.until().Equal(want) {
			t.Errorf("step %d: until %v, want %v", i, d.until(), want)
		}
	}
	d.take(true, now)
	d.take(false, now)
	d.unknown()
	if !d.take(false, now.Add(time.Hour)) || !d.until().Equal(now.Add(time.Hour+6*time.Second)) {
		t.Error("what nobody knew counts as known")
	}
}
