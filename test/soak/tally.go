package soak

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// tally is what a run comes to, for people.
type tally struct {
	deeds, leftOut int
	answered       int // dials of all Services
	kept           int // answers that were to be by who had answered before
	steady, failed int // dials of the steady app: all, and those that failed for a reason
	names          int
	slowestName    time.Duration
	crossings      int
	slowest        dial // answered dial of the steady app
	settled        time.Duration
	repairs        map[int]int // an agent's count, by its process
	rounds         int64       // of probes, from the namespace that sent fewest
	pause          time.Duration
}

func (t *tally) dialled(d *dial, steady netip.AddrPort) {
	switch {
	case d.name:
		t.names++
		if d.err == nil {
			t.slowestName = max(t.slowestName, took(*d))
		}
		return
	case d.err == nil:
		t.answered++
	}
	if d.to != steady {
		return
	}
	t.steady++
	if d.err != nil {
		t.failed++
	} else if took(*d) > took(t.slowest) {
		t.slowest = *d
	}
}

func took(d dial) time.Duration { return d.ended.Sub(d.began) }

func (t *tally) String() string {
	repairs := 0
	for _, n := range t.repairs {
		repairs += n
	}
	return fmt.Sprintf("%d steps done and %d left out; %d dials answered, %d names asked for, the slowest answer took %s; of %d dials of the steady app %d failed, each for a reason, and the slowest answer took %s (%s); %d answers of an affinity, each by whom the client had; %d crossings, all allowed; %d rounds of probes from every node and pod, the longest pause between two %s; %d repairs of rules; in order after %s at most",
		t.deeds-t.leftOut, t.leftOut, t.answered, t.names, t.slowestName.Round(time.Millisecond), t.steady, t.failed, took(t.slowest).Round(time.Millisecond), t.slowest.from, t.kept, t.crossings, t.rounds, t.pause.Round(time.Millisecond), repairs, t.settled)
}

// countRepairs asks every agent how often it put rules back. One that was
// ended since the last time takes what it did then with it.
func (s *Soak) countRepairs() {
	for _, n := range s.c.Nodes {
		text, err := n.Metrics()
		if err != nil {
			continue // it is not judged by this
		}
		for line := range strings.Lines(text) {
			if value, ok := strings.CutPrefix(line, "gridmesh_capture_repairs_total "); ok {
				v, _ := strconv.Atoi(strings.TrimSpace(value))
				s.tally.repairs[n.Agent.PID()] = v
			}
		}
	}
}
