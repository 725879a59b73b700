package vote

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// network is a unit in which time is an event: what is sent arrives some milliseconds later,
// or never. Each run of one seed is the same.
type network struct {
	t       *testing.T
	rng     *rand.Rand
	now     time.Time
	queue   events
	order   int
	nodes   map[string]*simNode
	all     []string // sorted, also who left
	names   []string // who is in the unit
	view    *View
	uids    map[string]string
	sizes   map[int]bool               // that the unit has had
	cut     func(from, to string) bool // no packet passes
	usurped map[string]bool            // another machine has its address
	blind   func(from, to string) bool // messages pass, and checks do not
	deaf    map[string]bool            // nothing gets to it but what answers it
	mute    bool                       // and that does not, either
	hoarse  string                     // nothing that it begins gets anywhere
	loss    float64                    // of what is sent
	holder  string                     // of the Lease
	refused bool                       // nobody is given it
	renewed time.Time
	lag     time.Duration // until a node's mirror of the cloud has everything, when it begins anew
	writes  []write
	stands  map[Member]write // the last of each
	deaths  []*declared
	notes   []note
	reports int
	asks    int
	targets int // of all questions
	checks  int
}

type simNode struct {
	*Machine
	dead, dark, stalled bool // dark has no uplink
	inbox               []Event
	clock               time.Duration // what its own is ahead
	wake                time.Time
	seen                time.Time // since when more than half of the unit see it
	synced              time.Time // since when it is told what changes in the cloud
	posted              time.Time // when its kubelet reached the cloud last
	lost                bool      // the cloud calls it NotReady
	cloud               *View     // who is in its unit, as the cloud told it last: that is in its file
}

type write struct {
	Write
	at time.Duration
	by string
}

// declared is a death that the cloud was told of, last.
type declared struct {
	Member
	by       string
	at, over time.Time
}

type note struct {
	Note
	by string
}

type event struct {
	at    time.Time
	order int
	do    func()
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return cmp.Or(q[i].at.Compare(q[j].at), cmp.Compare(q[i].order, q[j].order)) < 0
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(e any)   { *q = append(*q, e.(event)) }
func (q *events) Pop() any {
	e := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return e
}

var began = time.Unix(1000, 0)

func never(_, _ string) bool { return false }

func newNetwork(t *testing.T, n int, seed uint64) *network {
	s := &network{t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: began, nodes: map[string]*simNode{}, uids: map[string]string{}, stands: map[Member]write{}, sizes: map[int]bool{}, deaf: map[string]bool{}, usurped: map[string]bool{}, cut: never, blind: never, lag: 3 * time.Second}
	for i := range n {
		name := fmt.Sprintf("n%03d", i)
		s.uids[name] = "uid-" + name
		s.names = append(s.names, name)
		s.nodes[name] = &simNode{Machine: New(Default(name)), clock: time.Duration(s.rng.Int64N(int64(2*time.Hour))) - time.Hour, posted: began}
	}
	s.all = s.names
	s.gather()
	for _, name := range s.names {
		s.after(time.Duration(s.rng.Int64N(int64(10*time.Second))), func() {
			s.step(name, Uplink{true})
			s.tell(name)
		})
	}
	s.lease()
	s.monitor()
	return s
}

func (s *network) after(d time.Duration, do func()) {
	s.order++
	heap.Push(&s.queue, event{s.now.Add(d), s.order, do})
}

// run goes on for some time.
func (s *network) run(d time.Duration) {
	until := s.now.Add(d)
	for len(s.queue) > 0 && !s.queue[0].at.After(until) {
		e := heap.Pop(&s.queue).(event)
		s.now = e.at
		e.do()
	}
	s.now = until
}

// gather makes the view of who is in the unit.
func (s *network) gather() {
	var members []Member
	for _, name := range s.names {
		members = append(members, Member{name, s.uids[name]})
	}
	s.view, s.sizes[len(members)] = NewView(members, Default("").Observers), true
}

// passes reports whether a packet does, and what answers it.
func (s *network) passes(from, to string) bool {
	return !s.nodes[to].dead && !s.cut(from, to) && !s.cut(to, from) && !s.deaf[to] && from != s.hoarse
}

// answers reports whether what is answered gets to who asked.
func (s *network) answers(to string) bool { return !s.mute || !s.deaf[to] }

// send has something happen at another node, some time later. What is lost is sent again,
// twice, as TCP would; lost is told who sent it when that helped nothing.
func (s *network) send(from, to string, arrives func(), lost func()) {
	delay := time.Duration(0)
	for range 3 {
		if !s.nodes[from].dead && s.passes(from, to) && s.rng.Float64() >= s.loss {
			s.after(delay+time.Duration(1+s.rng.Int64N(50))*time.Millisecond, arrives)
			return
		}
		delay += 300 * time.Millisecond
	}
	s.after(2*time.Second, lost)
}

func (s *network) step(name string, e Event) {
	n := s.nodes[name]
	if n.stalled {
		n.inbox = append(n.inbox, e)
	} else if !n.dead {
		s.carry(name, n.Step(n.now(s), e))
	}
}

func (n *simNode) now(s *network) time.Time { return s.now.Add(n.clock) }

// stall starves a node for some time, and then it has all at once.
func (s *network) stall(name string, d time.Duration) {
	n := s.nodes[name]
	n.stalled = true
	s.after(d, func() {
		inbox := n.inbox
		n.stalled, n.inbox = false, nil
		for _, e := range inbox {
			s.step(name, e)
		}
	})
}

// restart loses all that a node knows but who is in the unit.
func (s *network) restart(name string) {
	n := s.nodes[name]
	n.Machine, n.dead, n.wake, n.synced = New(Default(name)), false, time.Time{}, s.now
	s.step(name, Uplink{!n.dark}) // it has to ask before it knows
	if n.dark && n.cloud != nil {
		s.step(name, Members{n.cloud})
	}
	s.tell(name)
}

func (s *network) carry(name string, out Effects) {
	n := s.nodes[name]
	if !out.Wake.Equal(n.wake) {
		n.wake = out.Wake
		s.after(out.Wake.Sub(n.now(s)), func() {
			if out.Wake.Equal(n.wake) {
				n.wake = time.Time{}
				s.step(name, Tick{})
			}
		})
	}
	if len(out.Check) > 0 {
		s.check(name, out.Check, func(of map[string]bool) { s.step(name, Checked{of}) })
	}
	for _, to := range out.Report {
		s.reports++
		report := Reported{name, out.Results, n.up, out.Hears, out.Holds}
		lost := func() { s.step(name, Delivered{To: to}) }
		s.send(name, to, func() {
			t := s.nodes[to]
			if !s.understands(name, to) {
				if !t.view.Has(name) { // it is a stranger; who is another one there is told nothing of it
					lost()
				}
				return
			}
			s.step(to, report)
			if !report.Up && name == s.holder && !t.dark && t.May(t.now(s)) {
				s.give(to) // by its own word nobody holds the Lease
			}
			reply := t.Reply(t.now(s))
			if !s.answers(name) {
				s.after(2*time.Second, lost)
				return
			}
			s.adopt(name, to)
			s.step(name, Delivered{to, true, reply})
		}, lost)
	}
	for _, q := range out.Ask {
		s.targets += len(q.Targets)
		for _, to := range n.view.Names() {
			s.put(name, to, q)
		}
	}
	for _, w := range out.Write {
		s.write(name, w)
	}
	for _, n := range out.Tell {
		s.notes = append(s.notes, note{n, name})
	}
}

// put puts a question to a node, which checks whom it is about.
func (s *network) put(from, to string, q Question) {
	s.asks++
	failed := func() { s.step(from, Answered{Question: q.Number, From: to, Failed: true}) }
	answer := func() {
		if !s.understands(from, to) {
			failed()
			return
		}
		of, asked := s.nodes[to].view, s.nodes[from].view
		targets := slices.DeleteFunc(slices.Clone(q.Targets), func(name string) bool {
			return name == to || !of.Has(name) || of.UID(name) != asked.UID(name)
		})
		s.check(to, targets, func(of map[string]bool) {
			results := s.nodes[to].Answers(of)
			s.send(to, from, func() { s.step(from, Answered{q.Number, to, results, false, false}) }, func() {})
		})
	}
	if from == to {
		s.after(0, answer)
		return
	}
	s.send(from, to, answer, failed)
}

// check tries each three times, as the daemon does.
func (s *network) check(name string, of []string, done func(map[string]bool)) {
	s.checks += len(of)
	results := map[string]bool{}
	for _, to := range of {
		ok := false
		for range 3 {
			ok = ok || s.usurped[to] || !s.blind(name, to) && s.passes(name, to) && s.answers(name) && s.rng.Float64() >= s.loss
		}
		results[to] = ok
	}
	s.after(2*time.Second, func() {
		if !s.nodes[name].dead {
			done(results)
		}
	})
}

func (s *network) kill(names ...string) {
	for _, name := range names {
		s.nodes[name].dead = true
	}
}

// darken takes nodes' uplinks away, which they find out some time later (health.FollowUplink), or
// gives them back.
func (s *network) darken(dark bool, names ...string) {
	for _, name := range names {
		n := s.nodes[name]
		n.dark, n.synced = dark, s.now
		if !dark {
			s.step(name, Uplink{true})
			s.tell(name)
			continue
		}
		s.after(uplinkLost, func() {
			if n.dark {
				s.step(name, Uplink{false})
			}
		})
	}
}

// uplinkLost is after how long a node finds out, at worst: five seconds until it asks, twice three
// that it waits, and one between these.
const uplinkLost = 12 * time.Second
