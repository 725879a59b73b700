package preload

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

func always(string) bool { return true }

// taken are the names that are kept, sorted.
func (u *Used) taken() []string { return slices.Sorted(maps.Keys(u.seen)) }

// Who dials every Service once does not displace what is in use, and what is
// kept is bounded.
func TestAScanDisplacesNothing(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	u := NewUsed()
	for i := range 50 {
		u.Ask(fmt.Sprint("real-", i))
	}
	if !u.Admit(now) || len(u.seen) != 50 {
		t.Fatalf("%d are taken at once, want 50", len(u.seen))
	}
	for i := range 70_000 {
		u.Ask(fmt.Sprint("scan-", i))
	}
	u.Admit(now)
	if n := len(u.taken()); n != Burst || len(u.waiting) != MostWaiting-50 || len(u.Notes()) != 1 {
		t.Errorf("%d are taken, %d wait, %q", n, len(u.waiting), u.Notes())
	}
	for range 2_000 {
		now = now.Add(Every)
		u.Admit(now)
		u.Age(always, now)
	}
	if len(u.queued) != len(u.waiting) {
		t.Errorf("%d wait, %d are queued", len(u.waiting), len(u.queued))
	}
	names := u.taken()
	if len(names) != Most {
		t.Errorf("%d are taken, want %d", len(names), Most)
	}
	for i := range 50 {
		if !slices.Contains(names, fmt.Sprint("real-", i)) {
			t.Fatalf("real-%d was displaced", i)
		}
	}
	again := NewUsed()
	again.Restore(append(u.Names(), "latest"), now)
	if got := again.Names(); !slices.Equal(got, append(u.Names()[1:], "latest")) {
		t.Errorf("%d are restored, not the latest in their order", len(got))
	}
}

// A cap full of what somebody dialled once gives way to what is used, and what
// is used again and again gives way to nothing.
func TestRealUseDisplacesAScan(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	u := NewUsed()
	var scanned []string
	for i := range Most - 1 {
		scanned = append(scanned, fmt.Sprint("scan-", i))
	}
	u.Restore(append(scanned, "real"), now)
	look := func(d time.Duration, names ...string) {
		for end := now.Add(d); now.Before(end); u.Admit(now) {
			now = now.Add(LookEvery)
			u.InUse(names, now)
		}
	}
	look(2*usedGrain, "real")
	if got := u.Names(); len(got) != Most || got[Most-1] != "real" || got[0] != "scan-0" {
		t.Fatalf("%d, %s first and %s last", len(got), got[0], got[len(got)-1])
	}
	look(time.Minute, "real", "new")
	if !u.has("new") || u.has("scan-0") || !u.has("scan-1") || len(u.seen) != Most {
		t.Errorf("new is kept: %v, the oldest of the scan: %v, the next: %v", u.has("new"), u.has("scan-0"), u.has("scan-1"))
	}
	// A scan that goes on for days, over more than there is room for.
	for round := range 30 {
		for i := range 500 {
			u.Ask(fmt.Sprint("more-", round, "-", i))
		}
		look(usedGrain, "real", "new")
	}
	if !u.has("real") || !u.has("new") || len(u.seen) != Most {
		t.Errorf("displaced by a scan: real %v, new %v", !u.has("real"), !u.has("new"))
	}
}

// One pod scans 10,000 Services, once and then every hour: what pods really use
// stays, and stays preferred where --preload-max leaves no room for all; what is
// kept and saved of a scan is bounded, and goes when the scan is over.
func TestAScanOfTenThousand(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	u := NewUsed()
	var busy, held []string
	for i := range 30 {
		busy = append(busy, fmt.Sprint("busy-", i)) // dialled all the time
		held = append(held, fmt.Sprint("held-", i)) // used by a run before
	}
	u.Restore(held, now)
	most := 0
	look := func(d time.Duration, names ...string) {
		for end := now.Add(d); now.Before(end); {
			now = now.Add(2 * LookEvery)
			u.InUse(names, now)
			u.Admit(now)
			u.Age(always, now)
			most = max(most, len(u.seen)+len(u.waiting)+len(u.queued))
		}
	}
	var all []string
	for i := range 10_000 {
		all = append(all, fmt.Sprint("scan-", i))
	}
	scan := func() {
		for _, name := range all {
			u.Ask(name)
		}
	}
	ofScan := func(names []string) (n int) {
		for _, name := range names {
			if strings.HasPrefix(name, "scan-") {
				n++
			}
		}
		return n
	}
	look(3*time.Hour, busy...)
	scan()
	look(4*time.Hour, busy...)
	if n, bound := ofScan(u.Names()), Burst+int(WaitIdle/Every); n == 0 || n > bound || len(u.waiting) > 0 {
		t.Errorf("of one scan %d are kept, want up to %d; %d wait", n, bound, len(u.waiting))
	}
	for range 5 {
		scan()
		look(time.Hour, busy...)
	}
	names := u.Names()
	for _, name := range busy {
		if at := slices.Index(names, name); at < len(names)-len(busy) {
			t.Fatalf("%s, which is dialled all the time, is at %d of %d", name, at, len(names))
		}
	}
	if len(names) > Most || most > Most+2*MostWaiting {
		t.Errorf("%d are kept, %d in all", len(names), most)
	}
	u.watched += Idle // as if it went on for a week
	look(time.Hour, busy...)
	if n := ofScan(u.Names()); n > 0 || len(u.waiting) > 0 {
		t.Errorf("a week after the scan %d of it are kept, %d wait", n, len(u.waiting))
	}
}

// What is used again does not wait behind what somebody dialled once.
func TestUsedAgainIsNextInTurn(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	u := NewUsed()
	for i := range Burst + 500 {
		u.Ask(fmt.Sprint("scan-", i))
	}
	u.Admit(now)
	u.InUse([]string{"late"}, now)
	for range 3 {
		now = now.Add(LookEvery)
		u.InUse([]string{"late"}, now)
	}
	if u.Admit(now); !u.has("late") || u.has(fmt.Sprint("scan-", Burst+3)) {
		t.Errorf("%d wait; next is %s", len(u.waiting), u.waiting[0].name)
	}
}

// What nobody uses for a week is let go, where it is known what is used.
func TestUsedAgesByDisuse(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	u := NewUsed()
	u.Restore([]string{"idle", "busy"}, now)
	now = now.Add(10 * Idle) // nobody looked
	u.InUse(nil, now)
	if u.Age(always, now) {
		t.Errorf("let go unseen: %v", u.taken())
	}
	look := func(d time.Duration) (forgot bool) {
		for end := now.Add(d); now.Before(end); forgot = u.Age(always, now) || forgot {
			now = now.Add(LookEvery)
			u.InUse([]string{"busy"}, now)
		}
		return forgot
	}
	if look(Idle) {
		t.Errorf("let go too early: %v", u.taken())
	}
	if !look(LookEvery) || !slices.Equal(u.taken(), []string{"busy"}) {
		t.Errorf("left is %v", u.taken())
	}
}

// What is no Service's for a day is forgotten; the clock may jump meanwhile.
func TestUsedAges(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	u := NewUsed()
	u.Restore([]string{"gone", "here"}, now)
	here := func(name string) bool { return name == "here" }
	u.Age(here, now.Add(-time.Hour))
	u.Age(here, now.Add(Gone))
	if got := u.taken(); !slices.Equal(got, []string{"gone", "here"}) {
		t.Errorf("after a day: %v", got)
	}
	if !u.Age(here, now.Add(Gone+time.Second)) {
		t.Error("nothing was forgotten")
	}
	if got := u.taken(); !slices.Equal(got, []string{"here"}) {
		t.Errorf("after more than a day: %v", got)
	}
	u.Admit(now)
	u.Ask("new")
	if !u.Admit(now.Add(-time.Hour)) || !slices.Equal(u.Names(), []string{"new", "here"}) {
		t.Errorf("after a clock that jumped: %v", u.Names())
	}
}

// Who is refused dials again and again, and does not wait behind somebody who dials a
// hundred Services now and then.
func TestWhoDialsAgainComesFirst(t *testing.T) {
	u, now := NewUsed(), time.Unix(0, 0)
	scan := func() {
		for i := range 300 {
			u.Ask(fmt.Sprint("scanned-", i))
		}
	}
	u.InUse(nil, now)
	scan()
	u.Admit(now) // takes the burst
	for i := range 40 {
		now = now.Add(LookEvery)
		if u.Ask("refused"); i%20 == 0 {
			scan()
		}
		u.InUse(nil, now)
		if u.Admit(now); u.has("refused") {
			t.Logf("its turn came after %s", now.Sub(time.Unix(0, 0)))
			if i > 4 {
				t.Errorf("its turn came at look %d", i)
			}
			return
		}
	}
	t.Errorf("its turn did not come in %s", now.Sub(time.Unix(0, 0)))
}

// A monitor dials as many Services as it likes, again and again for hours; whoever dials
// one more, as regularly, has its turn soon all the same: of those that come back the
// newest is as often next as the eldest. So it is where more wait than are kept, and the
// monitor's have their turns, too.
func TestAConstantScanStarvesNobody(t *testing.T) {
	for _, scanned := range []int{900, 2500} {
		t.Run(fmt.Sprint(scanned), func(t *testing.T) {
			u, now := NewUsed(), time.Unix(0, 0)
			look := func(names ...string) {
				for i := range scanned {
					u.Ask(fmt.Sprint("scanned-", i))
				}
				for _, name := range names {
					u.Ask(name)
				}
				now = now.Add(LookEvery)
				u.InUse(nil, now)
				u.Admit(now)
			}
			for range 2 * time.Hour / LookEvery {
				look()
			}
			if n := len(u.seen); n < Burst+200 {
				t.Errorf("in two hours %d of the monitor's had their turn", n)
			}
			for i := range 3 {
				tenant, looks := fmt.Sprint("tenant-", i), 0
				for ; !u.has(tenant) && looks < 200; looks++ {
					look(tenant)
				}
				t.Logf("%s had its turn at look %d", tenant, looks)
				if looks > 10 {
					t.Errorf("%s had its turn at look %d", tenant, looks)
				}
			}
		})
	}
}

// Nor does the newest for ever: a scan that always dials others, as long as each of them
// comes back, leaves every other turn to who waits longest.
func TestAScanOfAlwaysOthersStarvesNobody(t *testing.T) {
	u, now := NewUsed(), time.Unix(0, 0)
	looks := 0
	for ; !u.has("tenant") && looks < 500; looks++ {
		if looks > 0 { // the burst is the scan's
			u.Ask("tenant")
		}
		for i := range 200 { // each in 10 looks, 20 new ones at each
			u.Ask(fmt.Sprint("scanned-", looks*20+i))
		}
		now = now.Add(LookEvery)
		u.InUse(nil, now)
		u.Admit(now)
	}
	t.Logf("its turn came at look %d", looks)
	if looks > 120 {
		t.Errorf("its turn came at look %d", looks)
	}
}
