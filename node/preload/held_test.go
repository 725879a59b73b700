package preload

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// What was preloaded as near stays while it is used, however many wait for their turn, and
// goes when nobody uses it for an hour of looks; what is used has its turn as others have.
func TestWhatWasNearIsHeldWhileItIsUsed(t *testing.T) {
	u, now := NewUsed(), time.Unix(0, 0)
	var near, busy []string
	for i := range 300 {
		near = append(near, fmt.Sprintf("near-%03d", i))
	}
	busy = near[:250]
	u.InUse(nil, now)
	u.Hold(near)
	for i := range 300 {
		u.Ask(fmt.Sprint("scanned-", i))
	}
	lost := func() (n int) {
		names := map[string]bool{}
		for _, name := range u.Names() {
			names[name] = true
		}
		for _, name := range busy {
			if !names[name] {
				n++
			}
		}
		return n
	}
	for end := now.Add(4 * time.Hour); now.Before(end); {
		now = now.Add(LookEvery)
		u.InUse(busy, now)
		u.Age(always, now)
		if u.Admit(now); lost() > 0 {
			t.Fatalf("%d that are in use are let go after %s", lost(), now.Sub(time.Unix(0, 0)))
		}
		idle := slices.Contains(u.Names(), near[299])
		if at := now.Sub(time.Unix(0, 0)); idle != (at <= WaitIdle) {
			t.Fatalf("after %s one that nobody uses is held: %v", at, idle)
		}
	}
	if n := len(u.held); n > 0 {
		t.Errorf("%d of those in use did not have their turn", n)
	}
	if names := u.Names(); len(slices.Compact(slices.Sorted(slices.Values(names)))) != len(names) {
		t.Errorf("%v: some twice", names)
	}
}

// What is held is bounded, what was used longest ago goes first, and takes nobody's room; and
// what is no Service's is not held.
func TestHeldIsBounded(t *testing.T) {
	u, now := NewUsed(), time.Unix(0, 0)
	u.Restore([]string{"real"}, now)
	u.InUse(nil, now)
	u.Hold([]string{"busy", "real"})
	for i := range 3 {
		now = now.Add(LookEvery)
		u.InUse([]string{"busy"}, now)
		u.queued, u.waiting = map[string]*waiter{}, nil // its turn does not come
		var more []string
		for n := range Most - 1 {
			more = append(more, fmt.Sprint("more-", i, "-", n))
		}
		u.Hold(more)
	}
	names := u.Names()
	if len(names) != Most+1 || names[Most] != "real" || !slices.Contains(names, "busy") || slices.Contains(names, "more-0-0") {
		t.Errorf("%d are kept, %s last; busy: %v", len(names), names[len(names)-1], slices.Contains(names, "busy"))
	}
	if !u.Age(func(name string) bool { return name == "real" }, now) || !slices.Equal(u.Names(), []string{"real"}) {
		t.Errorf("without their Services %d are kept", len(u.Names()))
	}
}
