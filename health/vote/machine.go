package vote

import (
	"maps"
	"time"
)

// Machine is the state of one node. One goroutine owns it.
type Machine struct {
	cfg   Config
	view  *View
	up    bool      // reaches the cloud
	until time.Time // when it holds the unit's Lease no more

	next            time.Time       // when the next round begins
	late            bool            // the last one was
	checked, failed int             // in the last one
	silent          map[string]int  // who did not take a report, and for how many rounds it is spared
	ups             map[string]bool // who reaches the cloud, by what others said
	dead            map[string]bool // by the word of who leads
	told            time.Time       // when that was
	leader          string          // who leads, if not this node
	led             time.Time       // when that was true

	heard    map[string]*heard
	suspects map[string]int // for how many rounds
	cloud    map[string]Cloud
	verdicts map[string]verdict
	asked    int // questions, ever
	asking   map[int]*question
	budget   budget
}

// verdict is what was decided here.
type verdict struct {
	Answer
	proof Proof
	at    time.Time
}

// New makes a machine that knows nobody.
func New(cfg Config) *Machine {
	return &Machine{
		cfg: cfg, view: NewView(nil, cfg.Observers), silent: map[string]int{}, ups: map[string]bool{}, dead: map[string]bool{},
		heard: map[string]*heard{}, suspects: map[string]int{}, cloud: map[string]Cloud{}, verdicts: map[string]verdict{}, asking: map[int]*question{},
	}
}

// Step takes what happened at a time, which never goes back, and returns what is to be done.
func (m *Machine) Step(now time.Time, e Event) (out Effects) {
	switch e := e.(type) {
	case Tick:
	case Members:
		m.members(e.View)
	case Checked:
		m.checkedAll(now, e.Of, &out)
	case Reported:
		m.hear(now, e)
	case Delivered:
		m.delivered(now, e)
	case Answered:
		m.answered(now, e, &out)
	case Uplink:
		m.up = e.Up
	case Lease:
		m.until = e.Until
	case Cloud:
		m.cloud[e.Node] = e
	}
	m.expire(now, &out)
	m.begin(now, &out)
	out.Wake = m.wake()
	return out
}

// members takes who is in the unit, and forgets who is not.
func (m *Machine) members(of *View) {
	m.view = of
	gone := func(name string) bool { return !m.view.Has(name) }
	maps.DeleteFunc(m.silent, func(name string, _ int) bool { return gone(name) })
	maps.DeleteFunc(m.ups, func(name string, _ bool) bool { return gone(name) })
	maps.DeleteFunc(m.dead, func(name string, _ bool) bool { return gone(name) })
	maps.DeleteFunc(m.heard, func(name string, _ *heard) bool { return gone(name) })
	maps.DeleteFunc(m.suspects, func(name string, _ int) bool { return gone(name) })
	maps.DeleteFunc(m.cloud, func(name string, _ Cloud) bool { return gone(name) })
	maps.DeleteFunc(m.verdicts, func(name string, _ verdict) bool { return gone(name) })
	clear(m.asking) // who was asked in another view counts for nothing in this one
}

// wake is when something is to be done next.
func (m *Machine) wake() time.Time {
	at := m.next
	for _, q := range m.asking {
		if q.until.Before(at) {
			at = q.until
		}
	}
	return at
}

// Dead are the nodes that the unit declared dead, as far as this node knows, sorted: by its
// own votes, or by the word of who leads, for as long as that is new. All others are to be
// taken for what the cloud said last.
func (m *Machine) Dead(now time.Time) (list []string) {
	for _, name := range m.view.Names() {
		if m.isDead(now, name) {
			list = append(list, name)
		}
	}
	return list
}

func (m *Machine) isDead(now time.Time, name string) bool {
	return m.verdicts[name].Answer == No || m.dead[name] && now.Sub(m.told) <= m.cfg.Fresh
}

// declared are the dead of this node's own votes, sorted.
func (m *Machine) declared() (list []string) {
	for _, name := range m.view.Names() {
		if m.verdicts[name].Answer == No {
			list = append(list, name)
		}
	}
	return list
}

// May reports whether this node may hold the unit's Lease: it reaches the cloud, and more
// than half of the unit report to it.
func (m *Machine) May(now time.Time) bool { return m.up && m.hears(now) }

func (m *Machine) holds(now time.Time) bool { return m.up && now.Before(m.until) }

// leads reports whether it is this node that asks: the Lease's holder, or without the cloud
// the first by rank of those that report to it and hear as many.
func (m *Machine) leads(now time.Time) bool {
	if !m.hears(now) {
		return false
	}
	if m.anyUp(now) {
		return m.holds(now)
	}
	for _, name := range m.view.Ranked() {
		if name == m.cfg.Self {
			return true
		}
		if h := m.heard[name]; h != nil && h.fresh(now, &m.cfg) {
			return false
		}
	}
	return false
}

// anyUp reports whether any node of the unit reaches the cloud, as far as is known.
func (m *Machine) anyUp(now time.Time) bool {
	for _, h := range m.heard {
		if h.up && h.fresh(now, &m.cfg) {
			return true
		}
	}
	return m.up
}
