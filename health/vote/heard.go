package vote

import (
	"slices"
	"time"
)

// heard is the last report of a node.
type heard struct {
	at               time.Time
	up, hears, holds bool
	results          []Result // one of each node, sorted
}

func (h *heard) fresh(now time.Time, cfg *Config) bool { return now.Sub(h.at) <= cfg.Fresh }

// hear takes a report. What a node says of others than those that it is to check counts for
// nothing here: the whole unit's answers are asked for.
func (m *Machine) hear(now time.Time, e Reported) {
	if !m.view.Has(e.From) {
		return
	}
	m.heard[e.From] = &heard{now, e.Up, e.Hears, e.Holds, m.ofSubjects(e.From, e.Results)}
}

// ofSubjects are the first results of each node that another one is to check, in room for as
// many: who says it a hundred times says it once.
func (m *Machine) ofSubjects(from string, results []Result) []Result {
	of := m.view.Subjects(from)
	said := make([]Answer, len(of))
	for _, r := range results {
		if i, ok := slices.BinarySearch(of, r.Node); ok && said[i] == None {
			said[i] = r.Answer
		}
	}
	list := make([]Result, 0, len(of))
	for i, a := range said {
		if a != None {
			list = append(list, Result{of[i], a})
		}
	}
	return list
}

// hears reports whether more than half of the unit was heard of late, and answered if it was
// asked. This node is one.
func (m *Machine) hears(now time.Time) bool {
	if now.Before(m.unheard) {
		return false
	}
	n := 0
	for _, h := range m.heard {
		if h.fresh(now, &m.cfg) {
			n++
		}
	}
	return 2*n > m.view.Len() || m.view.Len() == 2 && n == 1
}

// suspect looks, once a round, at what was heard, and asks the unit about whom it has to.
func (m *Machine) suspect(now time.Time, out *Effects) {
	if !m.leads(now) { // others decide, and of whom little is heard here they know more
		clear(m.suspects)
		clear(m.verdicts)
		clear(m.asking)
		return
	}
	proofs := map[string]*Proof{}
	for _, name := range m.view.Names() {
		proofs[name] = &Proof{Of: len(m.view.Observers(name))}
	}
	for _, h := range m.heard {
		if !h.fresh(now, &m.cfg) {
			continue
		}
		for _, r := range h.results {
			proofs[r.Node].add(r.Answer)
		}
	}
	var ask []string
	for _, name := range m.view.Names() {
		if proofs[name].vouched() {
			delete(m.suspects, name)
		} else {
			m.suspects[name]++
		}
		if m.wants(now, name, *proofs[name], out) {
			ask = append(ask, name)
		}
	}
	m.ask(now, ask, out)
}

// wants reports whether the unit is to be asked about a node. One that is seen, and of which
// nothing was decided yet, is well without a question.
func (m *Machine) wants(now time.Time, name string, p Proof, out *Effects) bool {
	if m.verdicts[name].Answer == None && m.cloud[name].Verdict != None {
		m.verdicts[name] = verdict{Answer: m.cloud[name].Verdict} // by who led before, whose evidence is not known
	}
	v, suspected := m.verdicts[name], m.suspects[name] >= m.cfg.Suspicion
	if v.Answer != None && v.Answer != m.cloud[name].Verdict {
		if v.proof.Of == 0 { // adopted, and somebody else wrote since
			delete(m.verdicts, name)
			return false
		}
		m.write(now, name, v, out) // it was decided without a cloud, or somebody else wrote
	}
	switch {
	case m.isAsked(name):
		return false
	case v.Answer == None && !suspected && p.vouched():
		m.decide(now, name, Yes, p, out)
		return m.troubled(now, name)
	case v.Answer == No && p.vouched(), v.Answer != No && suspected:
		return true
	}
	return m.troubled(now, name) && (!v.proof.Exact || now.Sub(v.at) >= m.cfg.Renew)
}

// troubled reports whether it matters that the evidence about a node is exact, and new.
func (m *Machine) troubled(now time.Time, name string) bool {
	if c, ok := m.cloud[name]; ok && !c.Ready || m.verdicts[name].Answer == No {
		return true
	}
	h := m.heard[name]
	return h != nil && h.fresh(now, &m.cfg) && !h.up && m.holds(now)
}
