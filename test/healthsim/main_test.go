package main

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/healthsim/ours"
	"github.com/gridmesh/gridmesh/test/healthsim/page"
	"github.com/gridmesh/gridmesh/test/healthsim/sim"
)

// No fault has a node declared dead that lives and that the unit can reach, whatever dies
// meanwhile; but of three nodes two are enough to say so, and where half of the packets to one are lost both
// fail to see it by chance, once in ten hours.
func TestNoWrongVerdict(t *testing.T) {
	rows := append([]page.Row{
		{Title: "everything at once", Faults: "stall=10%,loss=10%,restart,clock,uplink=one"},
		{Title: "a cut of a unit that is busy", Faults: "halves,stall=10%,clock"},
		{Title: "a third without uplink", Faults: "thirds,uplink=all"},
	}, page.Rows...)
	for _, row := range rows {
		for _, n := range []int{3, 12, 30} {
			if testing.Short() && n > 12 {
				continue
			}
			t.Run(fmt.Sprint(row.Title, ", ", n), func(t *testing.T) {
				t.Parallel()
				r := sim.Run(sim.Config{Nodes: n, Seed: 1, Faults: row.Deaths(), Warm: 3 * time.Minute, Duration: time.Hour}, ours.New)
				most := 0
				if n == 3 && row.Faults == "oneway=50%" {
					most = 1
				}
				if r.Wrong > most {
					t.Errorf("%d nodes were declared dead that lived: go run . --nodes %d --seed 1 --fault %s,crash --trace", r.Wrong, n, row.Faults)
				}
			})
		}
	}
}

// Deaths are declared soon, where more than half of the unit is left to say so. Where nobody holds the
// Lease who leads may be who died: what it said last counts for 25 s, then the next one begins, and within
// two rounds of 10 s it asks, and has 5 s for answers, and 5 s go by before a check fails.
func TestDeathsAreDeclared(t *testing.T) {
	for fault, most := range map[string]time.Duration{"": 45 * time.Second, "loss=10%": time.Minute, "clock": 45 * time.Second, "uplink=all": 55 * time.Second} {
		r := sim.Run(sim.Config{Nodes: 30, Seed: 2, Faults: page.Row{Faults: fault}.Deaths(), Warm: 3 * time.Minute, Duration: 3 * time.Hour}, ours.New)
		if len(r.Detected) < 20 || r.Missed > 0 || r.Quantile(1) > most {
			t.Errorf("%q: %d deaths are declared, %d not; the last after %s, want %s", fault, len(r.Detected), r.Missed, r.Quantile(1), most)
		}
	}
}

// What a node sends does not depend on how many there are.
func TestMessagesAreFlat(t *testing.T) {
	per := func(n int) float64 {
		return sim.Run(sim.Config{Nodes: n, Seed: 1, Warm: time.Minute, Duration: time.Minute}, ours.New).Sent
	}
	few := per(20)
	for _, n := range []int{100, 1000, 5000} {
		if testing.Short() && n > 1000 {
			continue
		}
		if many := per(n); math.Abs(many/few-1) > 0.03 {
			t.Errorf("a node of %d sends %.2f messages a second, one of 20 %.2f", n, many, few)
		}
	}
}

// A run of one seed is the same each time, to the last byte.
func TestSameSeedSameRun(t *testing.T) {
	for _, p := range protocols {
		trace := func(seed string) string {
			var out bytes.Buffer
			code, err := run(strings.Fields("--trace --nodes 20 --for 20m --fault crash,stall,loss=20%,restart,halves --protocol "+p.name+" --seed "+seed), &out)
			if code != 0 || err != nil {
				t.Fatalf("%d, %v", code, err)
			}
			return out.String()
		}
		one := trace("1")
		if again := trace("1"); one != again {
			t.Errorf("%s: two runs of one seed differ", p.name)
		}
		if other := trace("2"); one == other {
			t.Errorf("%s: another seed changes nothing", p.name)
		}
		if !strings.Contains(one, " dies") || !strings.Contains(one, "cut in two") {
			t.Errorf("%s: nothing happened:\n%s", p.name, one)
		}
	}
}

// What is printed says what a stranger asks: help, faults, and what was wrong with a flag.
func TestFlags(t *testing.T) {
	for args, want := range map[string]struct {
		code int
		text string
	}{
		"--help":                        {0, "loss=10%"},
		"--fault loss=30":               {2, "must be a share, as 10%"},
		"--fault lose":                  {2, "there is no fault \"lose\""},
		"--fault halves=3":              {2, "halves takes no value"},
		"--fault uplink=two":            {2, "must be one or all"},
		"--fault crash,crash":           {2, "crash is said twice"},
		"--protocol raft":               {2, "there are ours, edgehealth, swim"},
		"--nodes 1":                     {2, "2 to 5000 nodes"},
		"--nodes 10 now":                {2, "there is nothing but flags"},
		"--nodes 10 --for 10m":          {0, "wrong verdicts     0"},
		"--figures /nowhere/figures.md": {2, "no such file"},
	} {
		var out bytes.Buffer
		code, err := run(strings.Fields(args), &out)
		if err != nil {
			out.WriteString(err.Error())
		}
		if code != want.code || !strings.Contains(out.String(), want.text) {
			t.Errorf("%s: %d, %s; want %d, %q", args, code, out.String(), want.code, want.text)
		}
	}
}

// The simulator sees wrong verdicts where there are some: SWIM has no majority.
func TestTheJudgeSees(t *testing.T) {
	var out bytes.Buffer
	if code, err := run(strings.Fields("--strict --nodes 20 --for 30m --fault halves --protocol swim"), &out); code != 1 || err != nil {
		t.Errorf("%d, %v: %s", code, err, out.String())
	}
}
