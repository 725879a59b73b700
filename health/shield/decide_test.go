package shield

import (
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

// Each row of the table, and its borders.
func TestDecide(t *testing.T) {
	renewed, silent := Unit{ago(30 * time.Second), 3}, Unit{ago(31 * time.Second), 3}
	dark, left := Unit{ago(time.Hour), 0}, Unit{ago(121 * time.Second), 1}
	for _, tt := range []struct {
		name string
		node Node
		unit Unit
		want Action
		why  string
	}{
		{"lost, seen by its peers", Node{Lost: true, Verdict: Well, Voted: ago(time.Minute)}, renewed, Shield, "uplink alone"},
		{"about to be lost, seen by its peers", Node{Verdict: Well, Voted: ago(time.Minute), Cut: true}, renewed, Shield, "says that it has no uplink"},
		{"says so, and is dead for its peers", Node{Lost: true, Verdict: Dead, Voted: ago(time.Minute), Cut: true}, renewed, Evict, "dead"},
		{"lost, dead for its peers", Node{Lost: true, Verdict: Dead, Voted: ago(time.Minute)}, renewed, Evict, "dead"},
		{"heard, dead for its peers", Node{Verdict: Dead, Voted: ago(time.Minute)}, renewed, Suspect, "do not"},
		{"heard, dead for its peers long ago", Node{Verdict: Dead, Voted: ago(time.Hour)}, renewed, Nothing, "hears it"},
		{"heard and seen", Node{Verdict: Well, Voted: ago(time.Minute)}, renewed, Nothing, "hears it"},
		{"heard, and said long ago that it has no uplink", Node{Verdict: Well, Voted: ago(time.Hour), Cut: true}, renewed, Nothing, "hears it"},
		{"lost, never voted on", Node{Lost: true}, renewed, Nothing, "not voted"},
		{"lost, no majority of late", Node{Lost: true, Verdict: Well, Voted: ago(5 * time.Minute)}, renewed, Hold, "does not agree"},
		{"lost, no majority for long", Node{Lost: true, Verdict: Well, Voted: ago(8 * time.Minute)}, renewed, Nothing, "for 8m0s"},
		{"lost, dead long ago", Node{Lost: true, Verdict: Dead, Voted: ago(5 * time.Minute)}, renewed, Nothing, "for 5m0s"},
		{"its unit fell silent", Node{Verdict: Well, Voted: ago(time.Minute)}, silent, Hold, "no uplink"},
		{"lost with its unit", Node{Lost: true, Verdict: Well, Voted: ago(time.Hour)}, dark, Hold, "no uplink"},
		{"lost with its unit, after its death", Node{Lost: true, Verdict: Dead, Voted: ago(time.Hour)}, dark, Hold, "no uplink"},
		{"lost with its unit, never voted on", Node{Lost: true}, dark, Hold, "no uplink"},
		{"lost, where votes ended and others are heard", Node{Lost: true, Verdict: Well, Voted: ago(time.Minute)}, left, Nothing, "any more"},
		{"lost where nobody votes", Node{Lost: true, Verdict: Well, Voted: ago(time.Second)}, Unit{}, Nothing, "nobody votes"},
	} {
		got, why := Decide(now, Default(), tt.node, tt.unit)
		if got != tt.want || !strings.Contains(why, tt.why) {
			t.Errorf("%s: %s, for %s; want %s, for …%s…", tt.name, got, why, tt.want, tt.why)
		}
	}
}

// A unit may be held for a time only.
func TestAutonomyEnds(t *testing.T) {
	c := Default()
	c.Autonomy = time.Hour
	for since, want := range map[time.Duration]Action{59 * time.Minute: Hold, 61 * time.Minute: Nothing} {
		if got, why := Decide(now, c, Node{Lost: true, Since: ago(since)}, Unit{Heard: ago(since)}); got != want {
			t.Errorf("after %s: %s, for %s; want %s", since, got, why, want)
		}
	}
}

// Nothing but a majority's word, newly heard, gives up a node.
func TestNothingElseEvicts(t *testing.T) {
	ages := []time.Duration{0, 20 * time.Second, 2 * time.Minute, 4 * time.Minute, time.Hour}
	for _, lost := range []bool{true, false} {
		for _, cut := range []bool{true, false} {
			for _, verdict := range []Verdict{None, Well, Dead} {
				for _, voted := range ages {
					for _, heard := range ages {
						got, _ := Decide(now, Default(), Node{Lost: lost, Cut: cut, Verdict: verdict, Voted: ago(voted)}, Unit{ago(heard), 1})
						may := lost && verdict == Dead && voted <= Default().Fresh && heard <= Default().Silent
						if (got == Evict) != may {
							t.Errorf("lost %v, cut %v, verdict %d of %s ago, Lease of %s ago: %s", lost, cut, verdict, voted, heard, got)
						}
					}
				}
			}
		}
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
