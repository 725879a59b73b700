package vote

import (
	"slices"
	"time"
)

// heard is the last report of a node.
type heard struct {
	at        time.Time
	up, hears bool
	results   []Result // one of each node, sorted
}

func (h *heard) fresh(now time.Time, cfg *Config) bool { return now.Sub(h.at) <= cfg.Fresh }

// hear takes a report. What a node says of others than those that it is to check counts for
// nothing here: the whole unit's answers are asked for.
func (m *Machine) hear(now time.Time, e Reported) {
	if !m.view.Has(e.From) {
		return
	}
	m.speaks(now, e.From)
	m.heard[e.From] = &heard{now, e.Up, e.Hears, m.ofSubjects(e.From, e.Results)}
	if delete(m.holders, e.From); e.Holds {
		m.holders[e.From] = true
	}
}

func (m *Machine) speaks(now time.Time, name string) {
	if m.view.Has(name) {
		m.words[name] = now
	}
}

// listen has nodes that said nothing to this one be heard of for as long as it takes to ask them,
// once it leads: until then they spoke to others.
func (m *Machine) listen(now time.Time) {
	for name, at := range m.words {
		if least := now.Add(m.cfg.Renew - m.cfg.Word); at.Before(least) {
			m.words[name] = least
		}
	}
}

// wordless reports whether a node that the cloud calls lost has said nothing itself for long. Of
// whom nothing is known that begins now.
func (m *Machine) wordless(now time.Time, name string) bool {
	if !m.isLost(name) {
		return false
	}
	at, known := m.words[name]
	if !known {
		m.words[name] = now
	}
	return known && now.Sub(at) > m.cfg.Word
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

// suspect looks, once a round, at what was heard, and asks the unit about whom it has to.
func (m *Machine) suspect(now time.Time, out *Effects) {
	if !m.lead(now) || m.view.Len() < 2 { // others decide, and of whom little is heard here they know more; of one nobody does
		clear(m.suspects)
		clear(m.doubted)
		clear(m.verdicts)
		clear(m.asking)
		clear(m.last)
		m.waiting = nil
		return
	}
	proofs := m.proofs(now)
	var ask []waiting
	for _, name := range m.view.Names() {
		if p := proofs[name]; p.vouched() || name == m.cfg.Self && p.No == 0 { // it is there, though nobody else is
			delete(m.suspects, name)
			delete(m.doubted, name)
		} else {
			if m.suspects[name]++; m.doubted[name].IsZero() {
				m.doubted[name] = now
			}
		}
		if m.wants(now, name, *proofs[name], out) {
			ask = append(ask, waiting{name, proofs[name].vouched()})
		}
	}
	m.queue(ask)
}

// proofs are what the observers of each node see, as far as is heard.
func (m *Machine) proofs(now time.Time) map[string]*Proof {
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
	return proofs
}

// hurries is how many nodes are asked about at once between two rounds.
const hurries = 3

// askNow asks the unit about a node that says for the first time that it has no uplink, where this
// one writes: until the next round the cloud may have taken it for lost. Where many say so, one
// question of the next round is about all of them.
func (m *Machine) askNow(now time.Time, name string, out *Effects) {
	if m.hurried++; m.hurried > hurries || !m.leading || !m.leads(now) || !m.holds(now) || !m.view.Has(name) {
		return
	}
	if p := *m.proofs(now)[name]; m.wants(now, name, p, out) {
		others := slices.DeleteFunc(m.waiting, func(w waiting) bool { return w.name == name })
		m.waiting = append([]waiting{{name, p.vouched()}}, others...)
	}
}

// wants reports whether the unit is to be asked about a node. One that is seen, and of which
// nothing was decided yet, is well without a question. Who may write has first to be told
// what stands there.
func (m *Machine) wants(now time.Time, name string, p Proof, out *Effects) bool {
	c, told := m.cloud[name]
	if m.holds(now) && !told {
		return false
	}
	v, suspected := m.standing(name, c.Verdict), m.suspects[name] >= m.cfg.Suspicion
	differs := m.holds(now) && v.Answer != None && v.Answer != c.Verdict // it was decided without a cloud, or somebody else wrote
	if differs && m.sound(now, v, c.Verdict) {
		m.write(now, name, v, out)
		differs = false
	}
	switch {
	case m.isAsked(name):
		return false
	case v.Answer == None && !suspected && p.vouched():
		m.decide(now, name, Yes, p, out)
		if !m.troubled(now, name) {
			return false
		}
	case differs, v.Answer == No && p.vouched(), v.Answer != No && suspected, m.troubled(now, name):
	default:
		return false
	}
	return m.due(now, name, p)
}

// standing is the verdict on a node: of this node, or adopted from the cloud, where who led
// before wrote it by evidence that is not known.
func (m *Machine) standing(name string, cloud Answer) verdict {
	v := m.verdicts[name]
	if v.Answer == None || v.proof.Of == 0 && !v.word {
		v = verdict{Answer: cloud}
		m.verdicts[name] = v
	}
	return v
}

// sound reports whether a verdict may be written over another one: by a vote of the unit
// that is not old, or where there is none and its observers see it.
func (m *Machine) sound(now time.Time, v verdict, over Answer) bool {
	return v.proof.Exact && now.Sub(v.at) < m.cfg.Renew || v.Answer == Yes && v.proof.Of > 0 && over == None
}

// troubled reports whether it matters that the evidence about a node is exact, and new.
func (m *Machine) troubled(now time.Time, name string) bool {
	if m.isLost(name) || m.verdicts[name].Answer == No {
		return true
	}
	return m.holds(now) && (m.cut(now, name) || m.cloud[name].Cut && m.healed(now, name))
}

// healed reports whether a node says that it has an uplink: what was written while it had none is to
// be written anew, once.
func (m *Machine) healed(now time.Time, name string) bool {
	h := m.heard[name]
	return h != nil && h.fresh(now, &m.cfg) && h.up
}

// cut reports whether a node says that it has no uplink.
func (m *Machine) cut(now time.Time, name string) bool {
	h := m.heard[name]
	return h != nil && h.fresh(now, &m.cfg) && !h.up
}
