package node

import (
	"testing"
	"time"
)

// That the own Node has no pod CIDRs is told once it lasts, and not any more when it has some.
func TestPodless(t *testing.T) {
	var p podless
	now := time.Now()
	for _, tc := range []struct {
		after time.Duration
		is    bool
		told  int
	}{{0, true, 0}, {podlessFor - 1, true, 0}, {podlessFor, true, 1}, {time.Hour, true, 1}, {time.Hour, false, 0}, {2 * time.Hour, true, 0}, {2*time.Hour + podlessFor, true, 1}} {
		if got := p.finding(now.Add(tc.after), tc.is, true); len(got) != tc.told {
			t.Errorf("after %s, without them %t: told is %v", tc.after, tc.is, got)
		}
	}
}
