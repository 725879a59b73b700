package cloud

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// Entries that ended keep nobody: Kubernetes has done since what it does. One that ended just now may
// be by a clock that is a little ahead.
func TestEntriesThatEnded(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339) }
	got := inForce(map[string]string{"now": at(time.Minute), "just": at(-30 * time.Second), "old": at(-2 * time.Minute), "odd": "soon"}, now)
	if want := []string{"just", "now"}; !slices.Equal(got, want) {
		t.Errorf("%v; want %v", got, want)
	}
}

// A list that has others than were written, or lacks some, is written anew.
func TestAListThatIsNotAsItWasWritten(t *testing.T) {
	r := shielded(t)
	at := func(d time.Duration) string { return r.now.Add(d).UTC().Format(time.RFC3339) }
	for _, hand := range []map[string]string{
		{},
		{"a-1": "", "a-2": ""},
		{"a-1": ""},
		{"a-2": "for ever"},
		{"a-2": at(-time.Minute)},
		{"a-2": at(time.Minute)},
		{"a-2": at(time.Hour)},
	} {
		r.pass(10*time.Second, true)
		r.on.list = hand
		r.found(hand, true)
		r.pass(2*time.Second, true)
		r.listedAre("somebody wrote it", "a-2")
		if until, err := time.Parse(time.RFC3339, r.on.list["a-2"]); err != nil || until.Sub(r.now) < 4*time.Minute || until.Sub(r.now) > 5*time.Minute {
			t.Errorf("%v was written: it is kept until %s, at %s", hand, r.on.list["a-2"], r.now)
		}
		r.found(r.on.list, true)
		before := r.on.writes
		if r.pass(10*time.Second, true); r.on.writes != before {
			t.Errorf("written %d times more", r.on.writes-before)
		}
	}
}

// What was written before the last time, and is told late, is not somebody else's.
func TestAListThatIsToldLate(t *testing.T) {
	r := shielded(t)
	before := r.on.list
	for range 60 {
		if r.pass(time.Second, true); r.on.list["a-2"] != before["a-2"] {
			break
		}
	}
	r.found(before, true)
	writes := r.on.writes
	if r.pass(10*time.Second, true); r.on.writes != writes {
		t.Errorf("written %d times more", r.on.writes-writes)
	}
}

// Where Leases are refused, and heard now and then for a moment, that is no outage either: nodes are
// not kept for ever.
func TestLeasesThatAreRefusedMostly(t *testing.T) {
	r := newRig(t)
	r.pass(time.Minute, true)
	refused := errors.New("forbidden")
	for range 20 {
		for range 58 {
			r.now = r.now.Add(time.Second)
			r.hear(r.now, nil, refused)
		}
		for range 2 {
			r.now = r.now.Add(time.Second)
			r.hear(r.now, nil, nil)
		}
	}
	r.now = r.now.Add(time.Second)
	if r.hear(r.now, nil, refused); r.begun.Equal(r.now) {
		t.Error("20 minutes later it is waited for as at first")
	}
	r.now = r.now.Add(time.Second)
	if r.hear(r.now, refused, refused); !r.begun.Equal(r.now) {
		t.Error("nothing is told, and that is not waited for")
	}
	for range 32 {
		r.now = r.now.Add(time.Second)
		r.hear(r.now, nil, nil)
	}
	if r.hear(r.now, nil, refused); !r.begun.Equal(r.now) {
		t.Error("it was whole for half a minute, and is not waited for anew")
	}
}
