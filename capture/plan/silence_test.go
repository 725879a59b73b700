package plan

import (
	"slices"
	"testing"
	"time"
)

// Only who waits all the time waits for long: an answer in between, or a time
// in which nobody looked, begins anew.
func TestSilence(t *testing.T) {
	var s Silence[string]
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
	judge(0, "ab")
	judge(59*time.Second, "abc")
	judge(time.Second, "ac", "a")
	judge(time.Second, "abc", "a")
	judge(58*time.Second, "bc", "c")
	judge(time.Second, "bc", "c")
	judge(time.Second, "bc", "b", "c")
	s.Forget()
	judge(time.Hour, "bc")
	judge(time.Minute, "b", "b")
}
