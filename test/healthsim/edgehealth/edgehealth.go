// Package edgehealth is the rule and the timing of SuperEdge's edge-health: every node checks
// every other, tells every other what it saw, and each counts for itself. It was written after
// what its source does (v0.9: 10 s between checks, 60 s between exchanges, 10 s between votes,
// of which what was heard in the last 60 s counts), and shares nothing with it.
package edgehealth

import (
	"time"

	"github.com/gridmesh/gridmesh/test/healthsim/sim"
)

const (
	checkEvery = 10 * time.Second
	tellEvery  = 60 * time.Second
	voteEvery  = 10 * time.Second
	fresh      = 60 * time.Second
	timeout    = 3 * time.Second // of a PUT
)

// What a PUT /result weighs: its headers, its JSON, and a result in it, as
// "192.168.100.100":{"normal":true}.
const (
	headerBytes = 190
	jsonBytes   = 110
	resultBytes = 29
	replyBytes  = 75
)

type mesh struct {
	w      *sim.World
	nodes  []agent
	others [][]int
}

type agent struct {
	seen *seen   // its own
	of   []*seen // what others told, by node
	dead []bool  // by its last vote
	up   bool
}

// seen is what a node saw in a round; it never changes.
type seen struct {
	at  time.Duration
	not []int // who did not answer
}

// New makes a unit in which no agent runs yet.
func New(w *sim.World) sim.Protocol {
	m := &mesh{w: w, nodes: make([]agent, w.Len()), others: make([][]int, w.Len())}
	for i := range m.others {
		for o := range w.Len() {
			if o != i {
				m.others[i] = append(m.others[i], o)
			}
		}
	}
	return m
}

// Start implements sim.Protocol.
func (m *mesh) Start(i int) {
	n := m.w.Len()
	m.nodes[i] = agent{of: make([]*seen, n), dead: make([]bool, n)}
	m.every(i, checkEvery, m.check)
	m.every(i, tellEvery, m.tell)
	m.every(i, voteEvery, m.vote)
}

// Uplink implements sim.Protocol.
func (m *mesh) Uplink(i int, up bool) { m.nodes[i].up = up }

func (m *mesh) every(i int, d time.Duration, do func(i int)) {
	var again func()
	again = func() {
		do(i)
		m.w.After(i, d, again)
	}
	m.w.After(i, m.w.Between(0, d), again)
}

func (m *mesh) check(i int) {
	m.w.Check(i, m.others[i], func(well []bool) {
		s := &seen{at: m.w.Now()}
		for k, ok := range well {
			if !ok {
				s.not = append(s.not, m.others[i][k])
			}
		}
		m.nodes[i].seen = s
	})
}

func (m *mesh) tell(i int) {
	s := m.nodes[i].seen
	if s == nil {
		return
	}
	bytes := headerBytes + jsonBytes + resultBytes*len(m.others[i])
	for _, to := range m.others[i] {
		m.w.Call(i, to, sim.Call{
			Timeout: timeout, Bytes: bytes,
			Serve: func(reply func(int, func())) {
				m.nodes[to].of[i] = &seen{m.w.Now(), s.not} // its receiver stamps it
				reply(replyBytes, func() {})
			},
			Failed: func() {},
		})
	}
}

// vote counts for each node who sees it and who does not: more than half of all nodes decide.
// Who was heard by nobody decides nothing.
func (m *mesh) vote(i int) {
	a, n := &m.nodes[i], m.w.Len()
	a.of[i] = a.seen
	no, voters := make([]int, n), 0
	for _, s := range a.of {
		if s == nil || m.w.Now()-s.at > fresh {
			continue
		}
		voters++
		for _, about := range s.not {
			no[about]++
		}
	}
	if voters < 2 {
		return
	}
	for about := range n {
		yes := voters - no[about]
		if s := a.of[about]; s != nil && m.w.Now()-s.at <= fresh {
			yes-- // nobody votes on itself
		}
		dead := a.dead[about]
		switch {
		case 2*no[about] > n:
			dead = true
		case 2*yes > n:
			dead = false
		}
		if dead != a.dead[about] {
			a.dead[about] = dead
			m.w.Verdict(i, about, dead)
			if a.up {
				m.w.Wrote(false)
			}
		}
	}
}
