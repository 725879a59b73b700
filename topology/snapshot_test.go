package topology

import (
	"slices"
	"testing"
	"time"
)

func second(n int) time.Time { return time.Unix(int64(n), 0) }

// seconds is from, from+1, … up to, without it, to.
func seconds(from, to int) (list []time.Time) {
	for n := from; n < to; n++ {
		list = append(list, second(n))
	}
	return list
}

func TestTriggersSince(t *testing.T) {
	b := NewBuilder()
	none := b.Build()
	add := func(from, to int) *Snapshot {
		for n := from; n < to; n++ {
			b.AddTrigger(second(n))
		}
		return b.Build()
	}
	first, second, third := add(0, 2), add(2, 3), add(3, 6)
	same := b.Build()
	for name, tc := range map[string]struct {
		s, prev *Snapshot
		want    []time.Time
	}{
		"nothing was noted":              {none, nil, nil},
		"from nothing":                   {first, nil, seconds(0, 2)},
		"from one without":               {first, none, seconds(0, 2)},
		"from another builder's":         {first, NewBuilder().Build(), seconds(0, 2)},
		"step by step":                   {second, first, seconds(2, 3)},
		"and on":                         {third, second, seconds(3, 6)},
		"one skipped":                    {third, first, seconds(2, 6)},
		"to itself":                      {third, third, nil},
		"nothing changed":                {same, third, nil},
		"backwards":                      {first, third, nil},
		"an old one, when there are new": {second, none, seconds(0, 3)},
	} {
		if got := tc.s.TriggersSince(tc.prev); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// A consumer that reads every so often sees each trigger once, whatever the
// builder throws away in between, and memory stays bounded.
func TestTriggersAreBoundedAndReportedOnce(t *testing.T) {
	b := NewBuilder()
	prev := b.Build()
	var all []time.Time
	const total, step = 7*maxTriggers/2 + 3, maxTriggers/3 + 1
	for n := range total {
		b.AddTrigger(second(n))
		if n%step == step-1 || n == total-1 {
			next := b.Build()
			all = append(all, next.TriggersSince(prev)...)
			prev = next
		}
	}
	if want := seconds(0, total); !slices.Equal(all, want) {
		t.Errorf("%d triggers were reported of %d", len(all), len(want))
	}
	if got := prev.TriggersSince(nil); !slices.Equal(got, seconds(total-maxTriggers, total)) {
		t.Errorf("%d triggers from nothing, want the newest %d", len(got), maxTriggers)
	}
	if cap(b.triggers) > 3*maxTriggers {
		t.Errorf("room for %d triggers is held", cap(b.triggers))
	}
}

func TestSnapshotIsPartialOnlyWhereSaid(t *testing.T) {
	if NewBuilder().Build().Partial {
		t.Error("a builder's snapshot is partial")
	}
}
