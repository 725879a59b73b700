package ours

import (
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/health/peer"
	"github.com/gridmesh/gridmesh/health/vote"
	"github.com/gridmesh/gridmesh/test/healthsim/sim"
)

// Unit is a unit whose nodes vote.
type Unit struct {
	w        *sim.World
	view     *vote.View
	index    map[string]int
	subjects [][]int // by node: whom it checks
	nodes    []agent
	cloud    cloud
	peer     peer.Config
}

// agent is what runs on a node.
type agent struct {
	*vote.Machine
	cfg      vote.Config
	up, may  bool
	informed bool // it was told what stands in the cloud
	holding  *holding
	quit     quit // the last one that nobody took
	wake     time.Time
	dead     []string // whom it held for dead
}

// epoch is the time of the truth's beginning.
var epoch = time.Unix(1_000_000, 0)

// New makes a unit in which no agent runs yet.
func New(w *sim.World) sim.Protocol {
	u := &Unit{w: w, index: map[string]int{}, nodes: make([]agent, w.Len()), peer: peer.Default()}
	members := make([]vote.Member, w.Len())
	for i := range members {
		members[i] = vote.Member{Name: w.Name(i), UID: "uid-" + w.Name(i)}
		u.index[w.Name(i)] = i
	}
	u.view = vote.NewView(members, vote.Default("").Observers)
	for i := range members {
		u.subjects = append(u.subjects, u.indices(u.view.Subjects(w.Name(i))))
	}
	u.cloud.begin(u)
	return u
}

func (u *Unit) indices(names []string) []int {
	list := make([]int, len(names))
	for i, name := range names {
		list[i] = u.index[name]
	}
	return list
}

// Start implements sim.Protocol.
func (u *Unit) Start(i int) {
	cfg := vote.Default(u.w.Name(i))
	u.nodes[i] = agent{Machine: vote.New(cfg), cfg: cfg}
	u.step(i, vote.Members{View: u.view})
	for _, word := range u.cloud.kept[i] {
		if word.Node != "" {
			u.step(i, word)
		}
	}
	u.inform(i)
}

// Uplink implements sim.Protocol.
func (u *Unit) Uplink(i int, up bool) {
	u.nodes[i].up = up
	u.step(i, vote.Uplink{Up: up})
	u.inform(i)
}

// now is the time by a node's own clock.
func (u *Unit) now(i int) time.Time { return epoch.Add(u.w.Now() + u.w.Clock(i)) }

// step has a node's machine take an event, and carries out what it wants.
func (u *Unit) step(i int, e vote.Event) {
	a := &u.nodes[i]
	now := u.now(i)
	out := a.Step(now, e)
	u.carry(i, now, out)
	if may := a.May(now); may != a.may {
		a.may = may
		u.hold(i)
		u.inform(i)
	}
	u.judge(i, now)
}

// judge tells the simulator whom a node holds for dead.
func (u *Unit) judge(i int, now time.Time) {
	a := &u.nodes[i]
	dead := a.Dead(now)
	if slices.Equal(dead, a.dead) {
		return
	}
	for _, name := range a.dead {
		if !slices.Contains(dead, name) {
			u.w.Verdict(i, u.index[name], false)
		}
	}
	for _, name := range dead {
		if !slices.Contains(a.dead, name) {
			u.w.Verdict(i, u.index[name], true)
		}
	}
	a.dead = dead
}

func (u *Unit) carry(i int, now time.Time, out vote.Effects) {
	a := &u.nodes[i]
	if !out.Wake.Equal(a.wake) {
		a.wake = out.Wake
		u.w.After(i, out.Wake.Sub(now), func() {
			if u.nodes[i].wake.Equal(out.Wake) {
				u.nodes[i].wake = time.Time{}
				u.step(i, vote.Tick{})
			}
		})
	}
	if len(out.Check) > 0 {
		u.check(i, u.subjects[i], func(of map[string]bool) { u.step(i, vote.Checked{Of: of}) })
	}
	for _, to := range out.Report {
		u.report(i, u.index[to], vote.Reported{From: u.w.Name(i), Results: out.Results, Up: a.up, Hears: out.Hears, Holds: out.Holds})
	}
	for _, q := range out.Ask {
		u.w.Tracef("%s asks about %v", u.w.Name(i), q.Targets)
		u.ask(i, q)
	}
	for _, w := range out.Write {
		u.cloud.write(i, w)
	}
	for _, n := range out.Tell {
		u.w.Tracef("%s says of %s: %s", u.w.Name(i), n.Node, n.What)
	}
}

func (u *Unit) check(i int, targets []int, done func(of map[string]bool)) {
	u.w.Check(i, targets, func(well []bool) {
		of := make(map[string]bool, len(well))
		for k, ok := range well {
			of[u.w.Name(targets[k])] = ok
		}
		done(of)
	})
}

func (u *Unit) report(i, to int, r vote.Reported) {
	u.w.Call(i, to, sim.Call{
		Timeout: u.peer.ReportTimeout, Bytes: reportBytes(r),
		Serve: func(reply func(int, func())) {
			if !r.Up {
				u.quits(to, i)
			}
			u.step(to, r)
			answer := u.nodes[to].Reply(u.now(to))
			reply(replyBytes(answer), func() { u.step(i, vote.Delivered{To: u.w.Name(to), OK: true, Reply: answer}) })
		},
		Failed: func() { u.step(i, vote.Delivered{To: u.w.Name(to)}) },
	})
}

// ask puts a question to the whole unit, itself among it.
func (u *Unit) ask(i int, q vote.Question) {
	targets, bytes := u.indices(q.Targets), questionBytes(q.Targets)
	answer := func(of int, with func(results []vote.Result)) {
		others := slices.DeleteFunc(slices.Clone(targets), func(t int) bool { return t == of })
		u.check(of, others, func(well map[string]bool) { with(u.nodes[of].Answers(well)) })
	}
	answer(i, func(results []vote.Result) {
		u.step(i, vote.Answered{Question: q.Number, From: u.w.Name(i), Results: results})
	})
	for to := range u.nodes {
		if to == i {
			continue
		}
		from := u.w.Name(to)
		u.w.Call(i, to, sim.Call{
			Timeout: u.peer.AskTimeout, Bytes: bytes,
			Serve: func(reply func(int, func())) {
				answer(to, func(results []vote.Result) {
					reply(answerBytes(results), func() {
						u.step(i, vote.Answered{Question: q.Number, From: from, Results: results})
					})
				})
			},
			Failed: func() { u.step(i, vote.Answered{Question: q.Number, From: from, Failed: true}) },
		})
	}
}
