package lists

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What no API server can say is never believed; what is only unlikely is, once
// it has been said for long enough; and nothing of it while something else that
// the same API server says cannot be.
func TestHowLongAListMustStand(t *testing.T) {
	const always, patience = 365 * 24 * time.Hour, time.Minute
	sure := Selection{"services", "default/kubernetes", 0}
	slices := Selection{"endpointslices", "default/kubernetes", patience}
	nodes := Selection{"nodes", "", patience}
	list := func(before, after int, anchored, alone bool) List[string] {
		l := List[string]{Before: before, After: after, Recent: before, Kept: min(before, after), Anchored: anchored, Alone: alone, Takes: map[string]int{}}
		if after < before {
			l.Takes["x"] = before - after
		}
		return l
	}
	for name, tc := range map[string]struct {
		of    Selection
		list  List[string]
		after time.Duration // when it is believed
	}{
		"whole":                        {sure, list(9, 9, true, true), 0},
		"without what all have":        {sure, list(9, 9, false, true), always},
		"the same, at first":           {sure, list(0, 9, false, true), always},
		"no endpoints of the API":      {slices, list(9, 9, false, true), patience},
		"the same, at first ":          {slices, list(0, 9, false, true), patience},
		"no nodes":                     {nodes, list(9, 0, false, true), patience},
		"no nodes, at first":           {nodes, list(0, 0, false, true), 0},
		"few nodes":                    {nodes, list(9, 2, false, true), Confirm},
		"few nodes, and no Services":   {nodes, list(9, 2, false, false), always},
		"whole, and no Services":       {nodes, list(9, 9, false, false), 0},
		"few of what may be few":       {Selection{"grid-endpointslices", "", 0}, list(9, 0, false, true), Confirm},
		"a grid's, while no Services ": {Selection{"grid-endpointslices", "", 0}, list(9, 0, false, false), always},
	} {
		t.Run(name, func(t *testing.T) {
			j, begin := NewJudge[string](tc.of), time.Unix(1000, 0)
			for _, at := range []time.Duration{0, Confirm - 1, Confirm, patience - 1, patience, always - 1} {
				if got, want := j.Believe(tc.list, begin.Add(at)), at >= tc.after; got != want {
					t.Fatalf("after %s: believed %v, want %v (%v)", at, got, want, j.Held.Err)
				} else if got {
					return
				}
				if next := j.Next(begin.Add(at), FirstLook); next <= 0 || next > FurthestLook {
					t.Errorf("after %s it is looked at again in %s", at, next)
				}
			}
		})
	}
}

// A list without what every whole one has, which has stood, is what is known: the next like it is not
// said to be held back, for nothing stays of what was before; one that takes more is.
func TestAListThatHasStood(t *testing.T) {
	j, at := NewJudge[string](Selection{"endpointslices", "default/kubernetes", time.Minute}), time.Unix(1000, 0)
	empty := List[string]{Before: 9, Recent: 9, Takes: map[string]int{"x": 9}, Alone: true}
	for _, wait := range []time.Duration{0, time.Minute} {
		if at = at.Add(wait); j.Believe(empty, at) != (wait > 0) {
			t.Fatalf("after %s: %v", wait, j.Held.Err)
		}
	}
	again := List[string]{Alone: true}
	for range 3 {
		if at = at.Add(time.Minute); !j.Believe(again, at) || j.Held.Err != nil {
			t.Errorf("what is known already is held back: %v", j.Held.Err)
		}
	}
	if less := (List[string]{Before: 9, After: 8, Recent: 9, Kept: 8, Takes: map[string]int{"x": 1}, Alone: true}); j.Believe(less, at) {
		t.Error("a list that takes something, and is not whole, is believed at once")
	}
	if !j.Believe(List[string]{Before: 9, After: 9, Recent: 9, Kept: 9, Anchored: true, Alone: true}, at) || j.Believe(again, at) {
		t.Error("after a whole list one that is not is believed")
	}
}
