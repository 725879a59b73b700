package vote

import "time"

// May reports whether this node may hold the unit's Lease: it reaches the cloud, and more
// than half of the unit report to it, and have for as long as Config.Fresh.
func (m *Machine) May(now time.Time) bool { return m.up && m.hears(now) }

// Holds reports whether this node holds the unit's Lease, and so may write.
func (m *Machine) Holds(now time.Time) bool { return m.holds(now) }

func (m *Machine) holds(now time.Time) bool { return m.up && now.Before(m.until) }

// lease notes until when this node holds it. What it decided without it was not written, nor perhaps
// what it decided before it lost it: who takes it has the unit say so again.
func (m *Machine) lease(now, until time.Time) {
	had := m.holds(now)
	if m.until = until; !had && m.holds(now) {
		m.anew()
	}
}

// leads reports whether it is this node that asks: the Lease's holder, or where none is heard
// of the first by rank of those that hear more than half of the unit. That a node could hold
// the Lease is not enough to wait for it, nor that one is heard that may hear nobody itself.
func (m *Machine) leads(now time.Time) bool {
	if !m.hears(now) {
		return false
	}
	if m.holds(now) {
		return true
	}
	for name := range m.holders {
		if name != m.cfg.Self && m.heard[name].fresh(now, &m.cfg) {
			return false
		}
	}
	for _, name := range m.view.Ranked() {
		if name == m.cfg.Self {
			return true
		}
		if h := m.heard[name]; h != nil && h.hears && h.fresh(now, &m.cfg) {
			return false
		}
	}
	return false
}

// lead begins a round, and reports whether this node leads in it. Where it does no more, who
// is dead stays so until another leader says otherwise.
func (m *Machine) lead(now time.Time) bool {
	was := m.leading
	switch m.leading = m.leads(now); {
	case m.leading && !was:
		m.listen(now)
		m.takeOver(now)
	case was && !m.leading && m.told.Before(m.voted):
		m.dead, m.told = map[string]bool{}, m.voted
		for _, name := range m.declared() {
			m.dead[name] = name != m.cfg.Self && !m.hearsay(m.verdicts[name])
		}
	}
	if m.leading {
		m.voted = now
		m.ledBy(now, m.cfg.Self)
	}
	return m.leading
}

// takeOver adopts what the last leader said: that is verified. In the dark it is newer than
// what the cloud said.
func (m *Machine) takeOver(now time.Time) {
	if !m.wordStands(now) {
		return
	}
	for _, name := range m.view.Names() {
		switch {
		case m.dead[name]:
			m.verdicts[name] = verdict{Answer: No, word: true}
		case !m.up && m.cloud[name].Verdict == No:
			m.verdicts[name] = verdict{Answer: Yes, word: true}
		}
	}
	clear(m.dead)
}

// hearLeader takes the newest word of who leads, and from that one alone who is dead.
func (m *Machine) hearLeader(now time.Time, from string, r Reply) {
	switch {
	case r.Leads:
		r.Leader, r.Age = from, 0
	case from == m.leader:
		m.leaderless(now)
	}
	m.follow(now, from, r.Leader, now.Add(-max(0, r.Age)))
	if m.leader != "" && m.believed() {
		m.ledBy(now, m.leader)
	}
	if !r.Leads || from != m.leader || !m.believed() {
		return
	}
	dead := map[string]bool{}
	for _, name := range r.Dead {
		if m.view.Has(name) {
			dead[name] = true
		}
	}
	if 2*len(dead) <= m.view.Len() { // no leader hears enough to say more
		delete(dead, m.cfg.Self)
		m.dead, m.told = dead, now
		for name := range dead {
			m.mourn(now, name)
		}
	}
}

// follow takes what another node said at a time of who leads. Whom one is known to be more
// than its own word, that one stays until it says otherwise, takes no report or is not heard
// of any more: else who comes last with a claim would lead.
func (m *Machine) follow(now time.Time, from, leader string, at time.Time) {
	if !m.view.Has(leader) || leader == m.cfg.Self || !m.takes(leader) || now.Sub(at) > m.cfg.Fresh {
		return
	}
	if leader != m.leader {
		known := m.leader != "" && now.Sub(m.led) <= m.cfg.Fresh
		if known && (from == leader || m.believed()) || m.leader == "" && at.Before(m.led) {
			return
		}
		m.leader, m.named, m.led = leader, false, at
	}
	m.named = m.named || from != leader
	if at.After(m.led) {
		m.led = at
	}
}

// leaderless forgets who leads, and what was said of that before.
func (m *Machine) leaderless(now time.Time) { m.leader, m.named, m.led = "", false, now }

// believed reports whether more than its own word says that the leader is one: another node
// named it, or it is the first by rank that takes reports, or there is nobody to name it.
func (m *Machine) believed() bool {
	first, others := "", 0
	for _, name := range m.view.Ranked() {
		if !m.takes(name) {
			continue
		}
		if first == "" {
			first = name
		}
		if name != m.leader && name != m.cfg.Self {
			others++
		}
	}
	return m.named || first == m.leader || others == 0
}

// takes reports whether a node takes reports, as far as is known.
func (m *Machine) takes(name string) bool { return name == m.cfg.Self || m.silent[name] == 0 }
