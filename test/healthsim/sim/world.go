package sim

import (
	"cmp"
	"container/heap"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"time"
)

// Protocol is what the agents of a unit run: one goroutine calls it.
type Protocol interface {
	// Start begins the agent of a node, or begins it anew: then it knows who is in the unit,
	// and nothing else.
	Start(node int)
	// Uplink says that a node reaches the cloud, or does not, when that changes.
	Uplink(node int, up bool)
}

// Ender is a Protocol that has something to end.
type Ender interface {
	// End ends the agent of a node, at once: it says nothing any more.
	End(node int)
}

// Config is a run.
type Config struct {
	Nodes    int
	Seed     uint64
	Faults   []Fault
	Warm     time.Duration // before anything is counted or goes wrong
	Duration time.Duration // after that
	Trace    io.Writer     // a line for each thing that people would ask about; nil: none
}

// World is a unit, its network and its time.
type World struct {
	cfg   Config
	rng   *rand.Rand
	now   time.Duration
	queue queue
	order uint64
	what  Protocol

	names  []string
	nodes  []node
	alive  map[int]int // how many live nodes are in a group
	loss   float64
	flows  map[[2]int]time.Duration // of those behind NAT: whom they sent a packet, and when
	digest uint64
	judge  judge
}

// New makes a world in which nothing has happened yet.
func New(cfg Config) *World {
	w := &World{
		cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 1)), nodes: make([]node, cfg.Nodes),
		alive: map[int]int{0: cfg.Nodes}, flows: map[[2]int]time.Duration{}, digest: fnv.New64a().Sum64(), judge: newJudge(cfg.Nodes),
	}
	for i := range cfg.Nodes {
		w.names = append(w.names, fmt.Sprintf("node-%04d", i))
	}
	return w
}

// Run runs a protocol to the end of the configured time.
func Run(cfg Config, protocol func(w *World) Protocol) Report {
	w := New(cfg)
	w.what = protocol(w)
	w.boots()
	w.until(cfg.Warm)
	w.fails()
	w.until(cfg.Warm + cfg.Duration)
	return w.report()
}

// boots has all agents begin within a round.
func (w *World) boots() {
	for i := range w.nodes {
		w.at(w.Between(0, 10*time.Second), func() { w.begin(i) })
	}
	for _, f := range w.cfg.Faults {
		f.prepare(w)
	}
}

// fails has what goes wrong begin, and what is counted.
func (w *World) fails() {
	w.judge.counts = true
	for i := range w.nodes {
		w.nodes[i].cost = cost{}
	}
	for _, f := range w.cfg.Faults {
		f.begin(w)
	}
}

// until has happen what happens before a time.
func (w *World) until(end time.Duration) {
	for len(w.queue) > 0 && w.queue[0].at <= end {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.do()
	}
	w.now = end
}

// Len is how many nodes there are.
func (w *World) Len() int { return w.cfg.Nodes }

// Name is that of a node.
func (w *World) Name(node int) string { return w.names[node] }

// Now is the time since the run began, which no node knows.
func (w *World) Now() time.Duration { return w.now }

// Rand is chance.
func (w *World) Rand() *rand.Rand { return w.rng }

// Between is a time between two.
func (w *World) Between(from, to time.Duration) time.Duration {
	if to <= from {
		return from
	}
	return from + time.Duration(w.rng.Int64N(int64(to-from)))
}

// at has something happen after some time, whatever becomes of nodes.
func (w *World) at(after time.Duration, do func()) {
	w.order++
	heap.Push(&w.queue, event{w.now + max(0, after), w.order, do})
}

// Cloud has something happen in the cloud after some time.
func (w *World) Cloud(after time.Duration, do func()) { w.at(after, do) }

// After has a node's agent do something after some time, later if it is stopped then, and
// never if it has ended.
func (w *World) After(node int, after time.Duration, do func()) {
	w.afterOf(node, w.nodes[node].life, after, do)
}

func (w *World) afterOf(node int, life uint32, after time.Duration, do func()) {
	w.at(after, func() { w.deliver(node, life, do) })
}

// deliver has an agent do something now, if it is the one that was meant.
func (w *World) deliver(node int, life uint32, do func()) {
	switch n := &w.nodes[node]; {
	case n.life != life || !n.runs():
	case n.stopped || n.frozen:
		n.inbox = append(n.inbox, do)
	default:
		do()
	}
}

// Tracef writes a line of the trace. All lines are part of the run's digest.
func (w *World) Tracef(format string, args ...any) {
	line := fmt.Sprintf("%10.3fs ", w.now.Seconds()) + fmt.Sprintf(format, args...)
	w.mix(line)
	if w.cfg.Trace != nil {
		fmt.Fprintln(w.cfg.Trace, line)
	}
}

// mix has the digest depend on something.
func (w *World) mix(text string) {
	for _, c := range []byte(text) {
		w.digest = (w.digest ^ uint64(c)) * 0x100000001b3
	}
}

type event struct {
	at    time.Duration
	order uint64
	do    func()
}

type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].at, q[j].at), cmp.Compare(q[i].order, q[j].order)) < 0
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(e any)   { *q = append(*q, e.(event)) }
func (q *queue) Pop() any {
	e := (*q)[len(*q)-1]
	(*q)[len(*q)-1] = event{}
	*q = (*q)[:len(*q)-1]
	return e
}
