package vote

import (
	"maps"
	"slices"
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
	refuted         bool            // all failed, and some of them report
	missed          map[string]int  // who did not take the last reports, and how many
	silent          map[string]int  // for how many rounds it is spared then
	ups             map[string]bool // who reaches the cloud, by what others said
	dead            map[string]bool // by the word of who leads, or its own when it led
	told            time.Time       // when that was
	leader          string          // who leads, if not this node
	named           bool            // by another than itself
	led             time.Time       // when that was true
	leaders         [2]string       // who led last, this node or another by more than its own word, and who before

	deaths map[string]bool // whom the cloud calls dead, by the last word of who led
	unsure map[string]word // the cloud's since, by who was not known to lead

	heard    map[string]*heard
	words    map[string]time.Time // when a node last said something itself, or was first seen to be lost
	holders  map[string]bool      // by their last reports
	quorum   quorum
	said     Reply                // what is replied until the next round
	leading  bool                 // in the last round
	voted    time.Time            // when it led last
	suspects map[string]int       // for how many rounds, since it was asked about
	doubted  map[string]time.Time // since when nobody vouches for it
	hurried  int                  // how many were asked about since the last round
	cloud    map[string]Cloud
	verdicts map[string]verdict
	asked    int64 // the number of the last question
	asking   map[int64]*question
	waiting  []waiting // for room to be asked about
	last     map[string]last
	unheard  time.Time // until when it is taken for one whom too few hear
	budget   budget
}

// early is of how many nodes the cloud's word is kept before it is known who is in the unit.
const early = 10_000

// verdict is what was decided here, or was adopted: then it has no proof.
type verdict struct {
	Answer
	proof Proof
	at    time.Time
	word  bool // adopted from who led before, and not from the cloud
}

// New makes a machine that knows nobody.
func New(cfg Config) *Machine {
	return &Machine{
		cfg: cfg, view: NewView(nil, cfg.Observers), missed: map[string]int{}, silent: map[string]int{}, ups: map[string]bool{}, dead: map[string]bool{}, deaths: map[string]bool{}, unsure: map[string]word{},
		heard: map[string]*heard{}, words: map[string]time.Time{}, holders: map[string]bool{}, suspects: map[string]int{}, doubted: map[string]time.Time{}, cloud: map[string]Cloud{}, verdicts: map[string]verdict{},
		asking: map[int64]*question{}, last: map[string]last{}, budget: budget{map[Member]*death{}},
	}
}

// Step takes what happened at a time, which never goes back, and returns what is to be done.
func (m *Machine) Step(now time.Time, e Event) (out Effects) {
	switch e := e.(type) {
	case Tick:
	case Members:
		m.members(now, e.View)
	case Checked:
		m.checkedAll(now, e.Of, &out)
	case Reported:
		was := m.heard[e.From]
		m.hear(now, e)
		if !e.Up && (was == nil || was.up) {
			m.askNow(now, e.From, &out)
		}
	case Delivered:
		m.delivered(now, e)
	case Spoke:
		m.speaks(now, e.From)
	case Answered:
		m.answered(now, e, &out)
	case Uplink:
		m.uplink(now, e.Up, &out)
	case Lease:
		m.lease(now, e.Until)
	case Cloud:
		m.ready(now, e)
	}
	m.expire(now, &out)
	m.begin(now, &out)
	m.ask(now, &out)
	out.Wake = m.wake()
	return out
}

// ready takes the cloud's word of a node of the unit.
func (m *Machine) ready(now time.Time, e Cloud) {
	if !m.view.Has(e.Node) && (m.view.Len() > 0 || len(m.cloud) >= early) {
		return
	}
	was, told := m.cloud[e.Node]
	if m.view.Has(e.Node) {
		m.heardOf(now, e)
	}
	if !e.Ready && (!told || was.Ready) {
		m.lostAt(now, e, told) // by all that are told, for any of them may lead later
	}
	m.cloud[e.Node] = e
}

// word is what somebody wrote of a node, and when it was told that that one wrote that it is dead.
type word struct {
	Cloud
	died time.Time // zero for never
}

// heardOf counts a death where who leads wrote it, as far as is known, or who led before, or this node; or anybody
// where nobody is known to have led. What other members write spends nothing of the budget, and ends no death.
func (m *Machine) heardOf(now time.Time, e Cloud) {
	if m.leaders[0] != "" && (e.By == "" || e.By != m.cfg.Self && !slices.Contains(m.leaders[:], e.By)) {
		w := word{Cloud: e}
		switch before := m.unsure[e.Node]; {
		case e.Verdict == No:
			w.died = now
		case before.By == e.By:
			w.died = before.died // it is over by now, and was one
		}
		m.unsure[e.Node] = w
		return
	}
	if delete(m.unsure, e.Node); e.Verdict == No && !m.deaths[e.Node] {
		m.budget.declared(now, m.view.member(e.Node))
	}
	m.deaths[e.Node] = e.Verdict == No
}

// ledBy notes who leads. What that one wrote before it was known to counts, too.
func (m *Machine) ledBy(now time.Time, leader string) {
	if leader == m.leaders[0] {
		return
	}
	m.leaders = [2]string{leader, m.leaders[0]}
	for name, w := range m.unsure {
		if w.By != leader {
			continue
		}
		if m.deaths[name] = w.Verdict == No; now.Sub(w.died) < m.cfg.Window {
			m.budget.note(now, m.view.member(name))
		}
		delete(m.unsure, name)
	}
}

// lostAt notes that a node is lost: now where this one sees it, and where it begins anew since when the cloud
// has had it so, or else no node would ever be wordless to daemons that are younger than Config.Word. Clocks may
// be off: it is never later than now, and there is time left in which the node is asked itself.
func (m *Machine) lostAt(now time.Time, e Cloud, told bool) {
	at := now
	if least := now.Add(m.cfg.Renew - m.cfg.Word); !told && !e.Since.IsZero() && e.Since.Before(now) {
		at = e.Since
		for _, t := range []time.Time{least, m.words[e.Node]} {
			if at.Before(t) {
				at = t
			}
		}
	}
	m.words[e.Node] = at
}

// mourn counts a node that is dead by what this one learnt now.
func (m *Machine) mourn(now time.Time, name string) {
	if m.knownDead(now, name) {
		m.budget.note(now, m.view.member(name))
	}
}

// knownDead reports whether a node is dead by what this node knows, or by what stands in the
// cloud: without an uplink who leads knows more.
func (m *Machine) knownDead(now time.Time, name string) bool {
	return m.isDead(now, name) || m.deaths[name] && (m.up || !m.wordStands(now))
}

// members takes who is in the unit, and forgets who is not, and who is another one now.
func (m *Machine) members(now time.Time, of *View) {
	if of.ID == m.view.ID {
		return
	}
	was := m.view
	m.view = of
	gone := func(name string) bool {
		return !of.Has(name) || was.Has(name) && was.UID(name) != of.UID(name)
	}
	forget(m.missed, gone)
	forget(m.silent, gone)
	forget(m.ups, gone)
	forget(m.dead, gone)
	forget(m.heard, gone)
	forget(m.words, gone)
	forget(m.holders, gone)
	forget(m.suspects, gone)
	forget(m.doubted, gone)
	forget(m.cloud, gone)
	forget(m.deaths, gone)
	forget(m.unsure, gone)
	forget(m.verdicts, gone)
	forget(m.last, gone)
	for from, h := range m.heard { // of whom it is to check in this view
		h.results = m.ofSubjects(from, slices.DeleteFunc(h.results, func(r Result) bool { return gone(r.Node) }))
	}
	if gone(m.leader) {
		m.leaderless(now)
	}
	for _, q := range m.asking { // who was asked in another view counts for nothing in this one: the next round asks
		for _, name := range q.targets {
			delete(m.last, name)
		}
	}
	clear(m.asking)
	m.waiting = nil
	for _, name := range of.Names() {
		if e, told := m.cloud[name]; told && !was.Has(name) {
			m.heardOf(now, e)
		}
		m.mourn(now, name)
	}
	m.quorum.until = time.Time{} // more than half are another number
	m.say(now)
}

// forget takes the nodes that are gone out of what is known by name.
func forget[V any](known map[string]V, gone func(name string) bool) {
	maps.DeleteFunc(known, func(name string, _ V) bool { return gone(name) })
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
// own votes, or by the word of who leads, for some rounds. All others are to be
// taken for what the cloud said last.
func (m *Machine) Dead(now time.Time) (list []string) {
	if len(m.verdicts) == 0 && len(m.dead) == 0 { // of who does not lead, as a rule
		return nil
	}
	for _, name := range m.view.Names() {
		if m.isDead(now, name) {
			list = append(list, name)
		}
	}
	return list
}

func (m *Machine) isDead(now time.Time, name string) bool {
	if v := m.verdicts[name]; v.Answer != None {
		return v.Answer == No && !m.hearsay(v)
	}
	return m.dead[name] && m.wordStands(now)
}

// hearsay reports whether a verdict is the cloud's, as that was heard last by who does not reach it: the node
// may be back since, and the unit is asked first.
func (m *Machine) hearsay(v verdict) bool { return !m.up && v.proof.Of == 0 && !v.word }

// wordStands reports whether what who leads said of the dead counts: for longer than it is
// heard of, so that neither another leader nor reports that are lost make them alive.
func (m *Machine) wordStands(now time.Time) bool {
	return !m.told.IsZero() && now.Sub(m.told) <= m.cfg.Fresh+(spared+2)*m.cfg.Every
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
