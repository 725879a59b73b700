package vote

import (
	"slices"
	"time"
)

// spared is for how many rounds at most nothing is sent to who did not take it: one report
// may be lost, and so may two.
const spared = 6

// begin begins the rounds that are due: one, however late it is.
func (m *Machine) begin(now time.Time, out *Effects) {
	if !m.view.Has(m.cfg.Self) {
		m.next = now.Add(m.cfg.Every) // in no unit
		return
	}
	if m.next.IsZero() {
		m.next = now // late for nothing
	}
	if now.Before(m.next) {
		return
	}
	m.late = isLate(&m.cfg, now.Sub(m.next))
	m.next = now.Add(m.cfg.Every)
	if out.Check = m.view.Subjects(m.cfg.Self); len(out.Check) == 0 {
		m.report(now, nil, out)
	}
}

// checkedAll ends the checks of a round.
func (m *Machine) checkedAll(now time.Time, of map[string]bool, out *Effects) {
	m.checked, m.failed = 0, 0
	talk := false
	for name, ok := range of {
		if m.isDead(now, name) {
			continue // it is known, and says nothing of this node
		}
		m.checked++
		if !ok {
			m.failed++
			h := m.heard[name]
			talk = talk || h != nil && h.fresh(now, &m.cfg)
		}
	}
	m.refuted = talk && m.checked > 1 && m.failed == m.checked // a port is closed to all, more likely
	m.report(now, m.Answers(of), out)
}

// report sends what this node sees to who is to hear it, hears it itself, and looks at what
// it heard.
func (m *Machine) report(now time.Time, results []Result, out *Effects) {
	out.Results = results
	out.Report = m.listeners(now)
	m.hear(now, Reported{From: m.cfg.Self, Results: results, Up: m.up})
	m.count(now)
	out.Hears = m.hears(now)
	out.Holds = out.Hears && m.holds(now)
	m.budget.look(now, &m.cfg, func(who Member) bool { return m.view.member(who.Name) == who && m.knownDead(now, who.Name) })
	m.hurried = 0
	m.suspect(now, out)
	m.say(now)
}

// uplink notes whether this node reaches the cloud, and reports that it does not at once: the cloud
// takes it for lost soon.
func (m *Machine) uplink(now time.Time, up bool, out *Effects) {
	was := m.up
	if !was && up {
		m.leaders = [2]string{} // of the time since when it had none it does not know
	}
	if m.up = up; !up {
		m.until = time.Time{} // who hears of that takes the Lease at once
	}
	if own := m.heard[m.cfg.Self]; was && !up && own != nil {
		own.up = false
		out.Report, out.Results, out.Hears = m.listeners(now), own.results, m.hears(now)
		m.say(now)
	}
}

// listeners are who is reported to, of those that take it: who leads, the first by rank, so
// that there is one whom all report to, and the next by rank, of whom those that reach the
// cloud come first, for one of them is to write. Where all are spared some are tried all the
// same: who was cut off has to be told who leads.
func (m *Machine) listeners(now time.Time) []string {
	var list []string
	add := func(wanted func(name string) bool) {
		for _, name := range m.view.Ranked() {
			if len(list) == m.cfg.Reporters {
				return
			}
			if name != m.cfg.Self && wanted(name) && !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	add(func(name string) bool { return m.takes(name) && name == m.leader && now.Sub(m.led) <= m.cfg.Fresh })
	if i := slices.IndexFunc(m.view.Ranked(), m.takes); i >= 0 {
		add(func(name string) bool { return name == m.view.Ranked()[i] })
	}
	add(func(name string) bool { return m.takes(name) && m.ups[name] })
	add(m.takes)
	if len(list) == 0 {
		add(func(string) bool { return true })
	}
	for name, n := range m.silent {
		if m.silent[name] = n - 1; n <= 1 {
			delete(m.silent, name)
		}
	}
	return list
}

// delivered notes who takes reports, and what it says.
func (m *Machine) delivered(now time.Time, e Delivered) {
	if !m.view.Has(e.To) {
		return
	}
	if !e.OK {
		if m.missed[e.To]++; m.missed[e.To] == 1 {
			return
		}
		m.silent[e.To] = min(spared, 2*(m.missed[e.To]-1))
		delete(m.ups, e.To)
		if e.To == m.leader {
			m.leaderless(now)
		}
		return
	}
	delete(m.missed, e.To)
	delete(m.silent, e.To)
	if len(e.Reply.Ups) > 0 {
		clear(m.ups)
	}
	for _, name := range e.Reply.Ups {
		if m.view.Has(name) {
			m.ups[name] = true
		}
	}
	m.hearLeader(now, e.To, e.Reply)
}

// Reply is what this node says to who reports to it. Its lists are not to be changed.
func (m *Machine) Reply(now time.Time) (r Reply) {
	if m.hears(now) {
		r.Ups = m.said.Ups
	}
	if m.leading && m.leads(now) {
		r.Leads, r.Dead = true, m.said.Dead
	} else if m.leader != "" && now.Sub(m.led) <= m.cfg.Fresh {
		r.Leader, r.Age = m.leader, now.Sub(m.led)
	}
	return r
}

// say makes what is replied until the next round: many ask.
func (m *Machine) say(now time.Time) {
	m.said = Reply{Dead: m.Dead(now)}
	for _, name := range m.view.Ranked() {
		if len(m.said.Ups) == m.cfg.Reporters {
			break
		}
		if h := m.heard[name]; name == m.cfg.Self && m.up || h != nil && h.up && h.fresh(now, &m.cfg) && !m.isDead(now, name) {
			m.said.Ups = append(m.said.Ups, name)
		}
	}
}
