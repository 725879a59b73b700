package plan

import (
	"slices"
	"testing"
	"time"
)

// Only who waits all the time waits for long: an answer in between, or a time
// in which nobody looked, begins anew.
func TestStalled(t *testing.T) {
	var s Stalled[string]
	now := time.Time{}
	judge := func(after time.Duration, waiting string, want ...string) {
		t.Helper()
		now = now.Add(after)
		var list []string
		for _, r := range waiting {
			list = append(list, string(r))
		}
		if got := s.Judge(list, now, time.Minute); !slices.Equal(got, want) {
			t.Errorf("%q are dead, want %q", got, want)
		}
	}
	on := func(seconds int, waiting string) { // without an end, and nobody is dead
		t.Helper()
		for range seconds {
			judge(time.Second, waiting)
		}
	}
	judge(time.Hour, "ab")
	on(58, "ab")
	judge(time.Second, "abc")
	judge(time.Second, "ac", "a")
	judge(time.Second, "abc", "a")
	on(57, "bc")
	judge(time.Second, "bc", "c")
	judge(unjudged, "bc", "b", "c")
	judge(unjudged+1, "bc") // who knows what they did meanwhile
	on(59, "b")
	judge(time.Second, "b", "b")
}
