package preload

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// all are those that are preloaded where there is room, what gives way first is first.
func (u *Used) all() []string { return append(u.Idle(), u.Names()...) }

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
	u.Hold(near, now)
	for i := range 300 {
		u.Ask(fmt.Sprint("scanned-", i))
	}
	lost := func() (n int) {
		names := map[string]bool{}
		for _, name := range u.all() {
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
		idle := slices.Contains(u.Idle(), near[299])
		if at := now.Sub(time.Unix(0, 0)); idle != (at <= WaitIdle) {
			t.Fatalf("after %s one that nobody uses is held: %v", at, idle)
		}
	}
	if n := len(u.held); n > 0 {
		t.Errorf("%d of those in use did not have their turn", n)
	}
	if names := u.all(); len(slices.Compact(slices.Sorted(slices.Values(names)))) != len(names) {
		t.Errorf("%v: some twice", names)
	}
}

// What is held is bounded, what was used longest ago goes first, and takes nobody's room; and
// what is no Service's is not held.
func TestHeldIsBounded(t *testing.T) {
	u, now := NewUsed(), time.Unix(0, 0)
	u.Restore([]string{"real"}, now)
	u.InUse(nil, now)
	u.Hold([]string{"busy", "real"}, now)
	for i := range 3 {
		now = now.Add(LookEvery)
		u.InUse([]string{"busy"}, now)
		u.queued, u.waiting = map[string]*waiter{}, nil // its turn does not come
		var more []string
		for n := range Most - 1 {
			more = append(more, fmt.Sprint("more-", i, "-", n))
		}
		u.Hold(more, now)
	}
	names := u.all()
	if len(names) != Most+1 || names[Most] != "real" || !slices.Contains(names, "busy") || slices.Contains(names, "more-0-0") {
		t.Errorf("%d are kept, %s last; busy: %v", len(names), names[len(names)-1], slices.Contains(names, "busy"))
	}
	if !u.Age(func(name string) bool { return name == "real" }, now) || !slices.Equal(u.all(), []string{"real"}) {
		t.Errorf("without their Services %d are kept", len(u.all()))
	}
}

// What nobody was seen to use for an hour goes, also where that hour is one in which Envoy
// said nothing.
func TestHeldAgesByTheClock(t *testing.T) {
	u, now := NewUsed(), time.Unix(0, 0)
	u.InUse(nil, now)
	u.Hold([]string{"near", "used"}, now)
	u.InUse([]string{"used"}, now.Add(LookEvery))
	if u.Age(always, now.Add(WaitIdle)) || len(u.held) != 2 {
		t.Errorf("%d are held for the hour, want 2", len(u.held))
	}
	if !u.Age(always, now.Add(WaitIdle+time.Second)) || len(u.held) != 1 {
		t.Errorf("%d are held after it, want the one that was used later", len(u.held))
	}
	if !u.Age(always, now.Add(WaitIdle+LookEvery+time.Second)) || len(u.held) != 0 {
		t.Errorf("%d are held an hour after the last use", len(u.held))
	}
	u.Hold([]string{"near"}, now) // and the clock is set back
	if u.Age(always, now.Add(-24*time.Hour)) || len(u.held) != 1 {
		t.Error("a clock that was set lets go of what is held")
	}
}

// Where too many are held those go first that nobody used since they fell, however long
// ago that was.
func TestWhatIsUsedOfTheHeldStays(t *testing.T) {
	u, now := NewUsed(), time.Unix(0, 0)
	u.InUse(nil, now)
	u.Hold([]string{"a-used"}, now)
	u.InUse([]string{"a-used"}, now.Add(LookEvery))
	var more []string
	for i := range Most {
		more = append(more, fmt.Sprint("b-", i))
	}
	u.Hold(more, now.Add(2*LookEvery))
	if _, ok := u.held["a-used"]; !ok || len(u.held) != Most {
		t.Errorf("%d are held, what is used among them: %v", len(u.held), ok)
	}
}

// A restart gains nothing by what was near: what was used of it is held as before, and
// goes when nobody uses it.
func TestARestartHoldsWhatWasHeld(t *testing.T) {
	u, now := NewUsed(), time.Unix(0, 0)
	u.Restore([]string{"real"}, now)
	u.InUse(nil, now)
	u.Hold([]string{"idle", "once"}, now)
	u.InUse([]string{"once"}, now.Add(LookEvery))
	for range 3 {
		saved := u.Lasting()
		u = NewUsed()
		u.Restore(saved, now)
		if got := u.Names(); !slices.Equal(got, []string{"once", "real"}) || !u.has("real") || u.has("once") {
			t.Errorf("restored are %v, with a turn: %v", got, u.taken())
		}
	}
	u.InUse(nil, now)
	if !u.Age(always, now.Add(WaitIdle+time.Second)) || !slices.Equal(u.Names(), []string{"real"}) {
		t.Errorf("after an hour without use: %v", u.Names())
	}
}
