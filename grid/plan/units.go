package plan

// members are the nodes of a unit.
type members struct{ nodes, ready int }

func (m *members) dark() bool { return m.nodes > 0 && m.ready == 0 }

// units are the Nodes, counted by the values of the unit keys in use: setting
// one costs the keys, not the Nodes.
type units struct {
	nodes map[string]node
	byKey map[string]map[string]*members // unit key -> unit
}

func newUnits() units {
	return units{nodes: map[string]node{}, byKey: map[string]map[string]*members{}}
}

// set adds or replaces a Node, or removes it where now is nil. It returns the
// keys of which a unit appeared, vanished, went dark or lit up.
func (u *units) set(name string, now *node) (changed []string) {
	was, before := u.nodes[name]
	delete(u.nodes, name)
	next := node{}
	if now != nil {
		next, u.nodes[name] = *now, *now
	}
	there := now != nil
	for key, list := range u.byKey {
		from, to := was.labels[key], next.labels[key]
		if from == to && was.ready == next.ready && before == there {
			continue
		}
		differs := before && count(list, from, was.ready, -1)
		differs = there && count(list, to, next.ready, 1) || differs
		if differs {
			changed = append(changed, key)
		}
	}
	return changed
}

// count adds a node to a unit, or takes it away, and reports whether the unit
// appeared, vanished, went dark or lit up.
func count(list map[string]*members, unit string, ready bool, by int) bool {
	if unit == "" {
		return false
	}
	m := list[unit]
	if m == nil {
		m = &members{}
		list[unit] = m
	}
	before := *m
	m.nodes += by
	if ready {
		m.ready += by
	}
	if m.nodes == 0 {
		delete(list, unit)
	}
	return (before.nodes == 0) != (m.nodes == 0) || before.dark() != m.dark()
}

// use counts the units of a key, where that was not in use before.
func (u *units) use(key string) {
	if u.byKey[key] != nil {
		return
	}
	list := map[string]*members{}
	for _, n := range u.nodes {
		count(list, n.labels[key], n.ready, 1)
	}
	u.byKey[key] = list
}

// drop forgets a key that is in use no longer.
func (u *units) drop(key string) { delete(u.byKey, key) }

// of are the units of a key in use.
func (u *units) of(key string) map[string]*members { return u.byKey[key] }
