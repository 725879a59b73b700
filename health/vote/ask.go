package vote

import (
	"maps"
	"slices"
	"time"
)

// question is one that the unit was asked.
type question struct {
	targets []string
	until   time.Time
	proofs  map[string]*Proof
	from    map[string]bool // has answered, or failed to
	spoke   map[string]bool // has answered
	answers int
	unsent  int // how many were not asked
}

// waiting is a node that the unit is to be asked about.
type waiting struct {
	name    string
	vouched bool // its observers see it
}

// last is when the unit was asked about a node last, and what came of it.
type last struct {
	at        time.Time
	vouched   bool // its observers saw it
	told      What // to people
	undecided int  // how often in a row
}

// due reports whether the unit may be asked about a node: not again at once, where its
// observers see what they saw then, but once, for answers get lost.
func (m *Machine) due(now time.Time, name string, p Proof) bool {
	l, ok := m.last[name]
	return !ok || l.vouched != p.vouched() || l.undecided == 1 || now.Sub(l.at) >= m.cfg.Renew
}

// tell tells people of what came of a question, where it is another thing than before.
func (m *Machine) tell(name string, what What, out *Effects) {
	l := m.last[name]
	if what != "" && what != l.told {
		out.Tell = append(out.Tell, Note{name, what})
	}
	l.told = what
	if l.undecided++; what != Undecided {
		l.undecided = 0
	}
	m.last[name] = l
}

// anew has the unit asked again about all of whom that is wanted.
func (m *Machine) anew() {
	for name, l := range m.last {
		l.at = time.Time{}
		m.last[name] = l
	}
}

// queue has the unit asked about nodes, once there is room: first about whom it was asked longest ago.
func (m *Machine) queue(list []waiting) {
	slices.SortStableFunc(list, func(a, b waiting) int { return m.last[a.name].at.Compare(m.last[b.name].at) })
	m.waiting = list
}

// ask asks the whole unit, itself among it, about those that wait, as far as there is room: what
// cannot be sent at once is answered too late.
func (m *Machine) ask(now time.Time, out *Effects) {
	most := max(1, m.cfg.AtOnce/max(1, m.view.Len()))
	for len(m.waiting) > 0 && len(m.asking) < most {
		if m.asked == 0 { // no number that was one before a restart: answers may come late
			m.asked = now.UnixMicro()
		}
		m.asked++
		q := &question{until: now.Add(m.cfg.AskFor), proofs: map[string]*Proof{}, from: map[string]bool{}, spoke: map[string]bool{}}
		n := min(len(m.waiting), m.cfg.Batch)
		for _, w := range m.waiting[:n] {
			l := m.last[w.name]
			l.at, l.vouched = now, w.vouched
			m.last[w.name] = l
			q.targets = append(q.targets, w.name)
			q.proofs[w.name] = &Proof{Of: m.view.Len(), Exact: true}
		}
		m.waiting = m.waiting[n:]
		m.asking[m.asked] = q
		out.Ask = append(out.Ask, Question{m.asked, q.targets})
	}
}

func (m *Machine) isAsked(name string) bool {
	for _, q := range m.asking {
		if q.proofs[name] != nil {
			return true
		}
	}
	return false
}

// answered counts a node's answer, once. A node says that it is well itself by answering.
func (m *Machine) answered(now time.Time, e Answered, out *Effects) {
	q := m.asking[e.Question]
	if q == nil || !m.view.Has(e.From) || q.from[e.From] {
		return
	}
	q.from[e.From] = true
	if !e.Failed {
		q.spoke[e.From] = true
		m.speaks(now, e.From)
		q.answers++
		if p := q.proofs[e.From]; p != nil {
			p.add(Yes)
		}
		said := map[string]bool{e.From: true}
		for _, r := range e.Results {
			if p := q.proofs[r.Node]; p != nil && !said[r.Node] {
				said[r.Node] = true
				p.add(r.Answer)
			}
		}
	} else if e.Unsent {
		q.unsent++
	}
	if len(q.from) == m.view.Len() {
		m.end(now, e.Question, out)
	}
}

// expire ends the questions whose time is over.
func (m *Machine) expire(now time.Time, out *Effects) {
	for _, number := range slices.Sorted(maps.Keys(m.asking)) {
		if !now.Before(m.asking[number].until) {
			m.end(now, number, out)
		}
	}
}

// end decides by the answers that came. Who stood still until long after their time knows nothing by
// them: nodes may be back since. It asks anew.
func (m *Machine) end(now time.Time, number int64, out *Effects) {
	q := m.asking[number]
	delete(m.asking, number)
	if now.Sub(q.until) > m.cfg.AskFor {
		for _, name := range q.targets {
			delete(m.suspects, name)
			delete(m.last, name)
		}
		return
	}
	if n := m.view.Len(); n > 2 && 2*q.answers <= n-q.unsent { // it may be this node alone that they do not answer
		m.unheard = now.Add(spared * m.cfg.Every)
	}
	for _, name := range m.longest(q.targets) {
		delete(m.suspects, name) // it is suspected anew before it is asked about again
		p := *q.proofs[name]
		a := Decide(m.view.Len(), p.Yes, p.No)
		if a == No && q.spoke[name] && p.Yes > 1 { // it answers, and is not seen by some: a port is closed to these
			a = None
		}
		switch {
		case a == Yes && m.wordless(now, name):
			m.tell(name, Wordless, out)
		case a == None:
			m.tell(name, Undecided, out)
		case m.decide(now, name, a, p, out):
			m.tell(name, "", out)
		default:
			m.tell(name, OverBudget, out)
		}
	}
	m.say(now)
}

// longest are nodes, first those for which nobody vouches for the longest: there may be too many to
// declare all dead.
func (m *Machine) longest(names []string) []string {
	return slices.SortedStableFunc(slices.Values(names), func(a, b string) int {
		x, y := m.doubted[a], m.doubted[b]
		if x.IsZero() || y.IsZero() {
			return y.Compare(x)
		}
		return x.Compare(y)
	})
}

// decide notes a verdict, and has it written where this node may. It is false where too many
// were declared dead.
func (m *Machine) decide(now time.Time, name string, a Answer, p Proof, out *Effects) bool {
	if a == No && m.verdicts[name].Answer != No && !m.budget.take(now, &m.cfg, m.view.Len(), len(m.declared()), m.view.member(name), m.isLost(name)) {
		return false
	}
	m.verdicts[name] = verdict{Answer: a, proof: p, at: now}
	m.write(now, name, m.verdicts[name], out)
	return true
}

// write has a verdict written, where this node may.
func (m *Machine) write(now time.Time, name string, v verdict, out *Effects) {
	if m.holds(now) {
		out.Write = append(out.Write, Write{name, m.view.UID(name), v.Answer, m.cut(now, name), v.proof, m.view.ID})
	}
}
