package node

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/xds/render"
)

func always(string) bool { return true }

// taken are the names that are kept, sorted.
func (u *used) taken() []string { return slices.Sorted(maps.Keys(u.seen)) }

// Who dials every Service once does not displace what is in use, and what is
// kept is bounded.
func TestAScanDisplacesNothing(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	u := newUsed()
	for i := range 50 {
		u.ask(fmt.Sprint("real-", i))
	}
	if !u.admit(now) || len(u.seen) != 50 {
		t.Fatalf("%d are taken at once, want 50", len(u.seen))
	}
	for i := range 70_000 {
		u.ask(fmt.Sprint("scan-", i))
	}
	u.admit(now)
	if n := len(u.taken()); n != usedBurst || len(u.waiting) != usedMax-50 || len(u.notes()) != 1 {
		t.Errorf("%d are taken, %d wait, %q", n, len(u.waiting), u.notes())
	}
	for range 2_000 {
		now = now.Add(usedEvery)
		u.admit(now)
		u.age(always, now)
	}
	if len(u.queued) != len(u.waiting) {
		t.Errorf("%d wait, %d are queued", len(u.waiting), len(u.queued))
	}
	names := u.taken()
	if len(names) != usedMax {
		t.Errorf("%d are taken, want %d", len(names), usedMax)
	}
	for i := range 50 {
		if !slices.Contains(names, fmt.Sprint("real-", i)) {
			t.Fatalf("real-%d was displaced", i)
		}
	}
	again := newUsed()
	again.restore(append(u.names(), "latest"), now)
	if got := again.names(); !slices.Equal(got, append(u.names()[1:], "latest")) {
		t.Errorf("%d are restored, not the latest in their order", len(got))
	}
}

// A cap full of what somebody dialled once gives way to what is used, and what
// is used again and again gives way to nothing.
func TestRealUseDisplacesAScan(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	u := newUsed()
	var scanned []string
	for i := range usedMax - 1 {
		scanned = append(scanned, fmt.Sprint("scan-", i))
	}
	u.restore(append(scanned, "real"), now)
	look := func(d time.Duration, names ...string) {
		for end := now.Add(d); now.Before(end); u.admit(now) {
			now = now.Add(askEnvoyEvery)
			u.inUse(names, now)
		}
	}
	look(2*usedGrain, "real")
	if got := u.names(); len(got) != usedMax || got[usedMax-1] != "real" || got[0] != "scan-0" {
		t.Fatalf("%d, %s first and %s last", len(got), got[0], got[len(got)-1])
	}
	look(time.Minute, "real", "new")
	if !u.has("new") || u.has("scan-0") || !u.has("scan-1") || len(u.seen) != usedMax {
		t.Errorf("new is kept: %v, the oldest of the scan: %v, the next: %v", u.has("new"), u.has("scan-0"), u.has("scan-1"))
	}
	// A scan that goes on for days, over more than there is room for.
	for round := range 30 {
		for i := range 500 {
			u.ask(fmt.Sprint("more-", round, "-", i))
		}
		look(usedGrain, "real", "new")
	}
	if !u.has("real") || !u.has("new") || len(u.seen) != usedMax {
		t.Errorf("displaced by a scan: real %v, new %v", !u.has("real"), !u.has("new"))
	}
}

// One pod scans 10,000 Services, once and then every hour: what pods really use
// stays, and stays preferred where --preload-max leaves no room for all; what is
// kept and saved of a scan is bounded, and goes when the scan is over.
func TestAScanOfTenThousand(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	u := newUsed()
	var busy, held []string
	for i := range 30 {
		busy = append(busy, fmt.Sprint("busy-", i)) // dialled all the time
		held = append(held, fmt.Sprint("held-", i)) // used by a run before
	}
	u.restore(held, now)
	most := 0
	look := func(d time.Duration, names ...string) {
		for end := now.Add(d); now.Before(end); {
			now = now.Add(2 * askEnvoyEvery)
			u.inUse(names, now)
			u.admit(now)
			u.age(always, now)
			most = max(most, len(u.seen)+len(u.waiting)+len(u.queued))
		}
	}
	var all []string
	for i := range 10_000 {
		all = append(all, fmt.Sprint("scan-", i))
	}
	scan := func() {
		for _, name := range all {
			u.ask(name)
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
	if n, bound := ofScan(u.names()), usedBurst+int(waitIdle/usedEvery); n == 0 || n > bound || len(u.waiting) > 0 {
		t.Errorf("of one scan %d are kept, want up to %d; %d wait", n, bound, len(u.waiting))
	}
	for range 5 {
		scan()
		look(time.Hour, busy...)
	}
	names := u.names()
	for _, name := range busy {
		if at := slices.Index(names, name); at < len(names)-len(busy) {
			t.Fatalf("%s, which is dialled all the time, is at %d of %d", name, at, len(names))
		}
	}
	if len(names) > usedMax || most > usedMax+2*usedMax {
		t.Errorf("%d are kept, %d in all", len(names), most)
	}
	u.watched += usedIdle // as if it went on for a week
	look(time.Hour, busy...)
	if n := ofScan(u.names()); n > 0 || len(u.waiting) > 0 {
		t.Errorf("a week after the scan %d of it are kept, %d wait", n, len(u.waiting))
	}
}

// What is used again does not wait behind what somebody dialled once.
func TestUsedAgainIsNextInTurn(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	u := newUsed()
	for i := range usedBurst + 500 {
		u.ask(fmt.Sprint("scan-", i))
	}
	u.admit(now)
	u.inUse([]string{"late"}, now)
	for range 3 {
		now = now.Add(askEnvoyEvery)
		u.inUse([]string{"late"}, now)
	}
	if u.admit(now); !u.has("late") || u.has(fmt.Sprint("scan-", usedBurst+3)) {
		t.Errorf("%d wait; next is %s", len(u.waiting), u.waiting[0])
	}
}

// What nobody uses for a week is let go, where it is known what is used.
func TestUsedAgesByDisuse(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	u := newUsed()
	u.restore([]string{"idle", "busy"}, now)
	now = now.Add(10 * usedIdle) // nobody looked
	u.inUse(nil, now)
	if u.age(always, now) {
		t.Errorf("let go unseen: %v", u.taken())
	}
	look := func(d time.Duration) (forgot bool) {
		for end := now.Add(d); now.Before(end); forgot = u.age(always, now) || forgot {
			now = now.Add(askEnvoyEvery)
			u.inUse([]string{"busy"}, now)
		}
		return forgot
	}
	if look(usedIdle) {
		t.Errorf("let go too early: %v", u.taken())
	}
	if !look(askEnvoyEvery) || !slices.Equal(u.taken(), []string{"busy"}) {
		t.Errorf("left is %v", u.taken())
	}
}

// What is no Service's for a day is forgotten; the clock may jump meanwhile.
func TestUsedAges(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	u := newUsed()
	u.restore([]string{"gone", "here"}, now)
	here := func(name string) bool { return name == "here" }
	u.age(here, now.Add(-time.Hour))
	u.age(here, now.Add(usedGone))
	if got := u.taken(); !slices.Equal(got, []string{"gone", "here"}) {
		t.Errorf("after a day: %v", got)
	}
	if !u.age(here, now.Add(usedGone+time.Second)) {
		t.Error("nothing was forgotten")
	}
	if got := u.taken(); !slices.Equal(got, []string{"here"}) {
		t.Errorf("after more than a day: %v", got)
	}
	u.admit(now)
	u.ask("new")
	if !u.admit(now.Add(-time.Hour)) || !slices.Equal(u.names(), []string{"new", "here"}) {
		t.Errorf("after a clock that jumped: %v", u.names())
	}
}

// A pod dials all of 2000 Services: the state stays small, and a restart keeps
// what was used before.
func TestAScanAndARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustStart(t)
		o := nodetest.NewObjects()
		var names []string
		for i := range 2000 {
			ip := fmt.Sprintf("10.96.%d.%d", 1+i/250, 1+i%250)
			o.Plain(fmt.Sprint("far-", i), ip, map[string]string{"b-1": "10.244.9.7"})
			names = append(names, ip+":80")
		}
		r.publish(o)
		r.xds.Ask(names[1999])
		synctest.Wait()
		r.xds.Ask(names...)
		synctest.Wait()
		after(saveInterval)
		r.stop()
		used := r.saved(t).Used
		if len(used) > usedBurst+1 || !slices.Contains(used, names[1999]) {
			t.Errorf("%d are saved as used, that of before among them: %v", len(used), slices.Contains(used, names[1999]))
		}
		if len(r.agent.status().Notes) != 1 {
			t.Errorf("notes: %q", r.agent.status().Notes)
		}
	})
}

// The pages say the numbers that count here.
func TestTheNumbersOnThePages(t *testing.T) {
	udp := render.Default().MaxUDP
	for page, parts := range map[string][]string{
		"../docs/ARCHITECTURE.md": {fmt.Sprintf("up to %d that were used", usedMax), fmt.Sprintf("%d a node, and the cluster's DNS", udp), fmt.Sprintf("`--preload-max`, %d", Default().PreloadMax)},
		"../docs/limits.md": {
			fmt.Sprintf("up to %d clusters; %d new ones are taken at once, then one every %s", usedMax, usedBurst, usedEvery),
			fmt.Sprintf("waits for %s", waitIdle), fmt.Sprintf("let go after %d days", usedIdle/(24*time.Hour)), fmt.Sprintf("a node has %d UDP", udp),
		},
	} {
		text, err := os.ReadFile(page)
		must(t, err)
		words := strings.Join(strings.Fields(string(text)), " ")
		for _, part := range parts {
			if !strings.Contains(words, part) {
				t.Errorf("%s does not say %q", page, part)
			}
		}
	}
}
