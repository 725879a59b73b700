package shield

import (
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/health/evidence"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

func heardAgo(d time.Duration, nodes, alive int) Unit {
	return Unit{Heard: ago(d), Nodes: nodes, Alive: alive, Holder: "n-0"}
}

// again is a unit that was silent, and is heard since some time ago.
func again(d time.Duration) Unit {
	return Unit{Heard: ago(time.Second), Again: ago(d), Nodes: 3, Alive: 1, Holder: "n-0"}
}

// vanished is a unit whose Lease is gone since some time ago.
func vanished(d time.Duration) Unit {
	return Unit{Heard: ago(d), Gone: ago(d), Nodes: 3, Alive: 1}
}

// two of three, all of whom were asked.
var two = evidence.Evidence{No: 2, Of: 3, Exact: true, By: "n-0"}

// Each row of the table, and its borders.
func TestDecide(t *testing.T) {
	renewed, silent := heardAgo(30*time.Second, 3, 3), heardAgo(31*time.Second, 3, 3)
	dark, left := heardAgo(time.Hour, 3, 0), heardAgo(121*time.Second, 3, 1)
	grown, cut := heardAgo(time.Second, 4, 4), evidence.Evidence{Yes: 3, Of: 3, Cut: true}
	again, settled := again(time.Minute), again(451*time.Second)
	for _, tt := range []struct {
		name string
		node Node
		unit Unit
		want Action
		why  string
	}{
		{"lost, seen by its peers", Node{Lost: true, Verdict: Well, Counts: true, Voted: ago(time.Minute)}, renewed, Shield, "uplink alone"},
		{"about to be lost, seen by its peers", Node{Verdict: Well, Counts: true, Voted: ago(time.Minute), Evidence: cut}, renewed, Shield, "says that it has no uplink"},
		{"says so, and is dead for its peers", Node{Lost: true, Verdict: Dead, Voted: ago(time.Minute), Evidence: evidence.Evidence{No: 2, Of: 3, Exact: true, Cut: true, By: "n-0"}}, renewed, Evict, "dead"},
		{"lost, dead for its peers", Node{Lost: true, Verdict: Dead, Voted: ago(time.Minute), Evidence: two}, renewed, Evict, "dead"},
		{"heard, dead for its peers", Node{Verdict: Dead, Voted: ago(time.Minute), Evidence: two}, renewed, Suspect, "do not"},
		{"heard, dead by nobody's count", Node{Verdict: Dead, Voted: ago(time.Minute)}, renewed, Nothing, "not of more than half of the 3"},
		{"heard, dead since before it was looked at", Node{Verdict: Dead, Voted: ago(time.Minute), Evidence: two, Found: true}, renewed, Nothing, "renewed to count"},
		{"lost, dead by nobody's count", Node{Lost: true, Verdict: Dead, Voted: ago(time.Minute)}, renewed, Nothing, "not of more than half of the 3"},
		{"lost, dead for some of its observers", Node{Lost: true, Verdict: Dead, Voted: ago(time.Minute), Evidence: evidence.Evidence{No: 2, Of: 3}}, renewed, Nothing, "not of more"},
		{"lost, dead by more than there are", Node{Lost: true, Verdict: Dead, Voted: ago(time.Minute), Evidence: evidence.Evidence{No: 9, Of: 3, Exact: true}}, renewed, Nothing, "not of more"},
		{"lost, dead for half of what its unit is by now", Node{Lost: true, Verdict: Dead, Voted: ago(time.Minute), Evidence: two}, grown, Nothing, "half of the 4"},
		{"lost, dead for the other one of two", Node{Lost: true, Verdict: Dead, Voted: ago(time.Minute), Evidence: evidence.Evidence{No: 1, Of: 2, Exact: true, By: "n-0"}}, heardAgo(time.Second, 2, 1), Evict, "dead"},
		{"lost, dead by another one's word", Node{Lost: true, Verdict: Dead, Voted: ago(time.Minute), Evidence: evidence.Evidence{No: 2, Of: 3, Exact: true, By: "n-1"}}, renewed, Nothing, "does not speak"},
		{"lost, well by another one's word", Node{Lost: true, Verdict: Well, Voted: ago(time.Minute), Evidence: evidence.Evidence{Yes: 3, Of: 3, Exact: true, By: "n-1"}}, renewed, Nothing, "does not speak"},
		{"lost, well by who speaks", Node{Lost: true, Verdict: Well, Voted: ago(time.Minute), Evidence: evidence.Evidence{Yes: 3, Of: 3, Exact: true, By: "n-0"}}, renewed, Shield, "uplink alone"},
		{"lost, well by a count that says otherwise", Node{Lost: true, Verdict: Well, Voted: ago(time.Minute), Evidence: two}, renewed, Nothing, "no count"},
		{"about to be lost, by another one's word", Node{Verdict: Well, Voted: ago(time.Minute), Evidence: evidence.Evidence{Yes: 3, Of: 3, Cut: true, By: "n-1"}}, renewed, Nothing, "hears it"},
		{"about to be lost, which another one takes back", Node{Verdict: Well, Voted: ago(time.Second), Evidence: evidence.Evidence{Yes: 3, Of: 3, By: "n-1"}, Last: Vote{Verdict: Well, Voted: ago(time.Minute), Evidence: cut}}, renewed, Shield, "says that it has no uplink"},
		{"well, and dead by another one's word", Node{Lost: true, Kept: true, Verdict: Dead, Voted: ago(time.Second), Evidence: evidence.Evidence{No: 2, Of: 3, Exact: true, By: "n-1"}, Last: Vote{Verdict: Well, Voted: ago(time.Minute)}}, renewed, Shield, "uplink alone"},
		{"well, and dead for less than half of its unit", Node{Lost: true, Kept: true, Verdict: Dead, Voted: ago(time.Second), Evidence: two, Last: Vote{Verdict: Well, Voted: ago(time.Minute)}}, grown, Shield, "uplink alone"},
		{"well, which somebody took away", Node{Lost: true, Kept: true, Voted: ago(time.Second), Last: Vote{Verdict: Well, Voted: ago(5 * time.Minute)}}, renewed, Hold, "does not agree"},
		{"well, which somebody took away long ago", Node{Lost: true, Kept: true, Voted: ago(8 * time.Minute), Last: Vote{Verdict: Well, Voted: ago(8 * time.Minute)}}, renewed, Nothing, "for 8m0s"},
		{"well, which somebody took away, where votes ended", Node{Lost: true, Kept: true, Last: Vote{Verdict: Well, Voted: ago(time.Hour)}}, left, Hold, "any more, which voted last"},
		{"dead, and well by another one's word", Node{Lost: true, Verdict: Well, Voted: ago(time.Second), Evidence: evidence.Evidence{Yes: 3, Of: 3, By: "n-1"}, Last: Vote{Verdict: Dead, Voted: ago(time.Minute), Evidence: two}}, renewed, Evict, "dead"},
		{"lost with its unit, dead by nobody's count", Node{Lost: true, Since: ago(59 * time.Minute), Verdict: Dead, Voted: ago(time.Hour)}, dark, Hold, "no uplink"},
		{"lost, dead by nobody's word", Node{Lost: true, Verdict: Dead, Voted: ago(time.Minute), Evidence: evidence.Evidence{No: 2, Of: 3, Exact: true}}, Unit{Heard: ago(time.Second), Nodes: 3, Alive: 2}, Nothing, "does not speak"},
		{"lost, dead by itself alone", Node{Lost: true, Verdict: Dead, Voted: ago(time.Minute), Evidence: evidence.Evidence{No: 1, Of: 1, Exact: true}}, heardAgo(time.Second, 1, 0), Nothing, "not of more"},
		{"lost, dead since before it was looked at", Node{Lost: true, Verdict: Dead, Voted: ago(time.Minute), Evidence: two, Found: true}, renewed, Nothing, "renewed to count"},
		{"lost, well since before it was looked at", Node{Lost: true, Since: ago(time.Minute), Verdict: Well, Counts: true, Voted: ago(time.Minute), Found: true}, renewed, Nothing, "on no list"},
		{"and on the list", Node{Lost: true, Since: ago(time.Minute), Verdict: Well, Counts: true, Voted: ago(time.Minute), Found: true, Kept: true}, renewed, Shield, "uplink alone"},
		{"and the API server says when", Node{Lost: true, Since: ago(time.Hour), Verdict: Well, Counts: true, Voted: ago(time.Minute), Found: true, Dated: true}, renewed, Shield, "uplink alone"},
		{"and was lost later", Node{Lost: true, Since: ago(time.Second), Verdict: Well, Counts: true, Voted: ago(time.Minute), Found: true}, renewed, Shield, "uplink alone"},
		{"heard, dead for its peers long ago", Node{Verdict: Dead, Voted: ago(time.Hour)}, renewed, Nothing, "hears it"},
		{"heard and seen", Node{Verdict: Well, Counts: true, Voted: ago(time.Minute)}, renewed, Nothing, "hears it"},
		{"heard, and said long ago that it has no uplink", Node{Verdict: Well, Counts: true, Voted: ago(time.Hour), Evidence: cut}, renewed, Nothing, "hears it"},
		{"lost, never voted on", Node{Lost: true}, renewed, Nothing, "not voted"},
		{"lost, no majority of late", Node{Lost: true, Verdict: Well, Counts: true, Voted: ago(5 * time.Minute)}, renewed, Hold, "does not agree"},
		{"lost, no majority for long", Node{Lost: true, Verdict: Well, Counts: true, Voted: ago(8 * time.Minute)}, renewed, Nothing, "for 8m0s"},
		{"lost, dead long ago", Node{Lost: true, Verdict: Dead, Voted: ago(5 * time.Minute)}, renewed, Nothing, "for 5m0s"},
		{"kept, in a unit that is heard again", Node{Lost: true, Kept: true, Verdict: Well, Counts: true, Voted: ago(time.Hour)}, again, Hold, "heard again"},
		{"kept, never voted on, in a unit that is heard again", Node{Lost: true, Kept: true}, again, Hold, "heard again"},
		{"kept, dead before its unit fell silent", Node{Lost: true, Kept: true, Verdict: Dead, Voted: ago(2 * time.Minute), Evidence: two}, again, Hold, "heard again"},
		{"kept, dead since its unit is heard again", Node{Lost: true, Kept: true, Verdict: Dead, Voted: ago(30 * time.Second), Evidence: two}, again, Evict, "dead"},
		{"kept, said to be dead by nobody's count since its unit is heard again", Node{Lost: true, Kept: true, Verdict: Dead, Voted: ago(30 * time.Second)}, again, Hold, "heard again"},
		{"kept, not missed yet, dead before its unit fell silent", Node{Kept: true, Verdict: Dead, Voted: ago(2 * time.Minute), Evidence: two}, again, Hold, "not have missed"},
		{"kept, not missed yet, dead since its unit is heard again", Node{Kept: true, Verdict: Dead, Voted: ago(30 * time.Second), Evidence: two}, again, Suspect, "do not"},
		{"kept, well since its unit is heard again", Node{Lost: true, Kept: true, Verdict: Well, Counts: true, Voted: ago(30 * time.Second)}, again, Shield, "uplink alone"},
		{"kept, in a unit that is heard for long", Node{Lost: true, Kept: true, Verdict: Well, Counts: true, Voted: ago(time.Hour)}, settled, Nothing, "for 1h0m0s"},
		{"kept, never voted on, in a unit that is heard for long", Node{Lost: true, Kept: true}, settled, Nothing, "not voted"},
		{"not kept, in a unit that is heard again", Node{Lost: true, Verdict: Well, Counts: true, Voted: ago(time.Hour)}, again, Nothing, "for 1h0m0s"},
		{"kept, and not missed yet", Node{Kept: true, Verdict: Well, Counts: true, Voted: ago(time.Hour)}, again, Hold, "not have missed"},
		{"kept, and long since heard", Node{Kept: true, Verdict: Well, Counts: true, Voted: ago(time.Hour)}, settled, Nothing, "hears it"},
		{"its unit fell silent", Node{Verdict: Well, Counts: true, Voted: ago(time.Minute)}, silent, Hold, "no uplink"},
		{"lost with its unit", Node{Lost: true, Since: ago(59 * time.Minute), Verdict: Well, Counts: true, Voted: ago(time.Hour)}, dark, Hold, "no uplink"},
		{"lost with its unit, never voted on", Node{Lost: true, Since: ago(59 * time.Minute)}, dark, Hold, "no uplink"},
		{"lost with its unit, for long", Node{Lost: true, Since: ago(61 * time.Minute), Kept: true}, heardAgo(62*time.Minute, 3, 0), HoldBound, "for more than 1h0m0s"},
		{"lost with its unit, and with most others", Node{Lost: true, Since: ago(61 * time.Minute), Kept: true}, Unit{Heard: ago(62 * time.Minute), Most: true, Nodes: 3}, Hold, "most of the cluster"},
		{"kept, and lost before its unit", Node{Lost: true, Since: ago(2 * time.Hour), Kept: true, Verdict: Well, Counts: true, Voted: ago(2 * time.Hour)}, dark, HoldBound, "no uplink"},
		{"kept, and said to be dead before its unit fell silent", Node{Lost: true, Since: ago(59 * time.Minute), Kept: true, Verdict: Dead, Voted: ago(time.Hour)}, dark, Hold, "no uplink"},
		{"lost before its unit, and not kept", Node{Lost: true, Since: ago(2 * time.Hour), Verdict: Well, Counts: true, Voted: ago(2 * time.Hour)}, dark, Nothing, "did not keep it"},
		{"dead before its unit fell silent", Node{Lost: true, Since: ago(59 * time.Minute), Verdict: Dead, Counts: true, Voted: ago(time.Hour)}, dark, Nothing, "said before that it is dead"},
		{"lost, where votes ended and others are heard", Node{Lost: true, Verdict: Well, Counts: true, Voted: ago(time.Minute)}, left, Nothing, "any more"},
		{"kept, and voted well last, where votes ended", Node{Lost: true, Kept: true, Verdict: Well, Counts: true, Voted: ago(time.Hour)}, left, Hold, "any more, which voted last"},
		{"kept, and never voted on, where votes ended", Node{Lost: true, Kept: true}, left, Nothing, "any more"},
		{"kept, and voted well last, where votes ended long ago", Node{Lost: true, Kept: true, Verdict: Well, Counts: true, Voted: ago(time.Hour)}, heardAgo(451*time.Second, 3, 1), Nothing, "any more"},
		{"kept, and its unit's Lease is gone", Node{Lost: true, Kept: true, Verdict: Well, Counts: true, Voted: ago(time.Hour)}, vanished(2 * time.Minute), Hold, "Lease is gone"},
		{"heard, and its unit's Lease is gone", Node{Verdict: Well, Counts: true, Voted: ago(time.Hour)}, vanished(2 * time.Minute), Hold, "Lease is gone"},
		{"lost, not kept, and its unit's Lease is gone", Node{Lost: true, Verdict: Dead, Voted: ago(time.Hour)}, vanished(time.Minute), Nothing, "not kept before"},
		{"kept, and its unit's Lease is gone for long", Node{Lost: true, Kept: true, Verdict: Well, Counts: true, Voted: ago(time.Minute)}, vanished(121 * time.Second), Nothing, "any more: its Lease is gone"},
		{"kept by an earlier controller, and there is no Lease", Node{Lost: true, Kept: true}, Unit{Gone: ago(2 * time.Minute)}, Hold, "Lease is gone"},
		{"kept by an earlier controller, and there is none for long", Node{Lost: true, Kept: true}, Unit{Gone: ago(121 * time.Second)}, Nothing, "nobody votes in its unit"},
		{"not kept, and there never was a Lease", Node{}, Unit{Gone: ago(time.Minute)}, Nothing, "nobody votes in its unit"},
		{"lost where nobody votes", Node{Lost: true, Verdict: Well, Counts: true, Voted: ago(time.Second)}, Unit{}, Nothing, "nobody votes"},
	} {
		got, why := Decide(now, Default(), tt.node, tt.unit)
		if got != tt.want || !strings.Contains(why, tt.why) {
			t.Errorf("%s: %s, for %s; want %s, for …%s…", tt.name, got, why, tt.want, tt.why)
		}
	}
}

// A unit is held for a time; what is bound to it for ever, and all of it where no time is given.
func TestAutonomyEnds(t *testing.T) {
	c := Default()
	for since, want := range map[time.Duration]Action{59 * time.Minute: Hold, 61 * time.Minute: HoldBound, 1000 * time.Hour: HoldBound} {
		if got, why := Decide(now, c, Node{Lost: true, Since: ago(since)}, heardAgo(since+time.Minute, 3, 0)); got != want {
			t.Errorf("after %s: %s, for %s; want %s", since, got, why, want)
		}
	}
	c.Autonomy = 0
	if got, _ := Decide(now, c, Node{Lost: true, Since: ago(1000 * time.Hour)}, heardAgo(1001*time.Hour, 3, 0)); got != Hold {
		t.Errorf("without a time: %s", got)
	}
}

// Where most of a cluster is lost it is the cloud that is cut off.
func TestMayPart(t *testing.T) {
	if !MayPart(55, 100) || MayPart(56, 100) || !MayPart(3, 6) || MayPart(3, 4) {
		t.Error("others than at most 55 in a hundred")
	}
}

// Nothing but a majority's word, newly heard, gives up a node, or marks one that is heard.
func TestNothingElseEvicts(t *testing.T) {
	ages := []time.Duration{0, 20 * time.Second, 2 * time.Minute, 4 * time.Minute, time.Hour}
	proofs := []evidence.Evidence{{}, {No: 2, Of: 3}, two, {No: 1, Of: 3, Exact: true}, {No: 2, Of: 4, Exact: true, Cut: true, By: "n-0"}, {No: 2, Of: 3, Exact: true, By: "n-1"}}
	for i := range 5 * 5 * 6 * 3 * 2 * 2 {
		pick := func(n int) int {
			at := i % n
			i /= n
			return at
		}
		voted, heard, e := ages[pick(5)], ages[pick(5)], proofs[pick(6)]
		n := Node{Evidence: e, Voted: ago(voted), Verdict: Verdict(pick(3)), Lost: pick(2) == 0, Found: pick(2) == 0}
		got, _ := Decide(now, Default(), n, heardAgo(heard, 3, 1))
		may := n.Verdict == Dead && e == two && !n.Found && voted <= Default().Fresh && heard <= Default().Silent
		if (got == Evict) != (may && n.Lost) || (got == Suspect) != (may && !n.Lost) {
			t.Errorf("%+v, Lease of %s ago: %s", n, heard, got)
		}
	}
}

// However many are said to be unseen, most of each unit and of the cluster get new pods.
func TestMaySuspect(t *testing.T) {
	for unit := 2; unit <= 100; unit++ {
		for cluster := unit; cluster <= 1000; cluster += 100 {
			n := 0
			for MaySuspect(n, unit, n, cluster) {
				n++
			}
			if n < 1 || 2*n >= unit && n > 1 || n > few && 10*n > cluster {
				t.Errorf("%d of a unit of %d, in a cluster of %d", n, unit, cluster)
			}
		}
	}
	if MaySuspect(0, 5, 10, 100) || !MaySuspect(0, 5, 9, 100) {
		t.Error("others than a tenth of the cluster")
	}
}

func TestBudget(t *testing.T) {
	var b Budget
	at := now
	if !b.Take(at, "a", 5, 0) || !b.Take(at, "b", 5, 0) {
		t.Fatal("the first of a unit must wait")
	}
	if b.Take(at.Add(9*time.Second), "a", 5, 1) {
		t.Error("two within 10 s")
	}
	if at = at.Add(10 * time.Second); !b.Take(at, "a", 5, 1) {
		t.Error("the second must wait longer than 10 s")
	}
	if b.Take(at.Add(time.Hour), "a", 5, 2) {
		t.Error("more than half of a unit")
	}
	if !b.Take(at.Add(time.Hour), "two", 2, 0) {
		t.Error("of two nodes none")
	}
	if len(b.spent) != 1 {
		t.Errorf("%d units are remembered: want 1", len(b.spent))
	}
}

func TestValidate(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
	err := Config{Silent: -1, Autonomy: -1}.Validate()
	for _, word := range []string{"uplink", "evidence", "held"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%v: want %q in it", err, word)
		}
	}
}
