package sim

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// Report is what came of a run.
type Report struct {
	Nodes int
	For   time.Duration
	// Sent is what a node sends in a second, in messages and bytes: a request and its reply,
	// or a dial and its answer, are a message each way.
	Sent, SentBytes float64
	// Busiest is what that node sends and receives that does most.
	Busiest, BusiestBytes float64
	Wrong                 int // verdicts that a node is dead which was fine, Early of them before any fault
	Early                 int
	CutOff                int             // that a node is dead which more than half of the unit could not reach
	Detected              []time.Duration // from a death to the first verdict, sorted
	Missed                int             // deaths without one
	Back                  []time.Duration // for how long who was fine was still held for dead, sorted
	Writes, Changes       int             // of verdicts, to the cloud; of them those that are another verdict
	Leases                int             // writes of the unit's Lease
	Digest                uint64          // of the trace and of all counters
}

func (w *World) report() Report {
	seconds := w.cfg.Duration.Seconds()
	r := Report{
		Nodes: w.cfg.Nodes, For: w.cfg.Duration, Wrong: w.judge.wrong + w.judge.early, Early: w.judge.early, CutOff: w.judge.cut,
		Detected: slices.Sorted(slices.Values(w.judge.detected)), Missed: w.judge.missed, Back: slices.Sorted(slices.Values(w.judge.back)),
		Writes: w.judge.writes, Changes: w.judge.changes, Leases: w.judge.leases,
	}
	for i := range w.nodes {
		c := w.nodes[i].cost
		w.mix(fmt.Sprintf("%d %+v", i, c))
		r.Sent += float64(c.sent) / seconds / float64(w.cfg.Nodes)
		r.SentBytes += float64(c.sentBytes) / seconds / float64(w.cfg.Nodes)
		r.Busiest = max(r.Busiest, float64(c.sent+c.received)/seconds)
		r.BusiestBytes = max(r.BusiestBytes, float64(c.sentBytes+c.receivedBytes)/seconds)
	}
	w.mix(fmt.Sprint(r))
	r.Digest = w.digest
	return r
}

// NodeHours are those of all nodes together.
func (r Report) NodeHours() float64 { return float64(r.Nodes) * r.For.Hours() }

// WrongRate is how many wrong verdicts there are in 1000 node-hours.
func (r Report) WrongRate() float64 { return 1000 * float64(r.Wrong) / r.NodeHours() }

// Quantile is how long it took to detect that share of the deaths, by rank; 0 if there was none.
func (r Report) Quantile(q float64) time.Duration { return Quantile(r.Detected, q) }

// Quantile is that of a sorted list, by rank; 0 of none.
func Quantile(list []time.Duration, q float64) time.Duration {
	if len(list) == 0 {
		return 0
	}
	return list[min(len(list)-1, int(q*float64(len(list))))]
}

// Add joins the reports of two runs of one unit, with different seeds.
func (r Report) Add(o Report) Report {
	r.Wrong, r.Early, r.CutOff, r.Missed, r.For = r.Wrong+o.Wrong, r.Early+o.Early, r.CutOff+o.CutOff, r.Missed+o.Missed, r.For+o.For
	r.Writes, r.Changes, r.Leases = r.Writes+o.Writes, r.Changes+o.Changes, r.Leases+o.Leases
	r.Detected = slices.Sorted(slices.Values(slices.Concat(r.Detected, o.Detected)))
	r.Back = slices.Sorted(slices.Values(slices.Concat(r.Back, o.Back)))
	r.Digest ^= o.Digest
	return r
}

// Print writes it for people.
func (r Report) Print(to io.Writer) {
	fmt.Fprintf(to, "nodes              %d, for %s\n", r.Nodes, r.For)
	fmt.Fprintf(to, "sent by a node     %.2f messages/s, %.0f bytes/s\n", r.Sent, r.SentBytes)
	fmt.Fprintf(to, "the busiest        %.2f messages/s, %.0f bytes/s, both ways\n", r.Busiest, r.BusiestBytes)
	if n := len(r.Detected); n+r.Missed > 0 {
		fmt.Fprintf(to, "deaths             %d, declared after %s (p50), %s (p99), %s (max); never %d\n", n+r.Missed,
			r.Quantile(0.5).Round(100*time.Millisecond), r.Quantile(0.99).Round(100*time.Millisecond), r.Quantile(1).Round(100*time.Millisecond), r.Missed)
	}
	if n := len(r.Back); n > 0 {
		fmt.Fprintf(to, "back               %d, held for dead for %s more (p50), %s (p99), %s (max)\n", n,
			Quantile(r.Back, 0.5).Round(100*time.Millisecond), Quantile(r.Back, 0.99).Round(100*time.Millisecond), Quantile(r.Back, 1).Round(100*time.Millisecond))
	}
	fmt.Fprintf(to, "wrong verdicts     %d, %.1f in 1000 node-hours\n", r.Wrong, r.WrongRate())
	fmt.Fprintf(to, "of who was cut off %d\n", r.CutOff)
	fmt.Fprintf(to, "written            %d verdicts, %d of them new; the Lease %d times\n", r.Writes, r.Changes, r.Leases)
	fmt.Fprintf(to, "digest             %016x\n", r.Digest)
}
