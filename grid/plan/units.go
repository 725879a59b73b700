package plan

import (
	"maps"
	"slices"
	"time"
)

// members are the nodes of a unit.
type members struct {
	nodes int
	ready map[string]time.Time // nodes that are, and since when; zero is unknown
	seen  time.Time            // when a plan saw the unit first; zero is not yet
}

func (m *members) dark() bool { return m.nodes > 0 && len(m.ready) == 0 }

// mark notes whether a node is ready; of no unit (nil) that is nothing.
func (m *members) mark(name string, n node) {
	switch {
	case m == nil:
	case n.ready:
		m.ready[name] = n.since
	default:
		delete(m.ready, name)
	}
}

// lit is since when a node of the unit has been ready; zero is unknown.
func (m *members) lit() (at time.Time) {
	first := true
	for _, since := range m.ready {
		if first || since.Before(at) {
			at, first = since, false
		}
	}
	return at
}

// newcomers is what a grid knows of units that came after it had some.
type newcomers struct {
	first time.Time            // when a plan saw units of the grid first; those are not new
	let   map[string]time.Time // units that came since and did not have to wait, of late
}

// division is what Nodes make up by one unit key.
type division struct {
	units  map[string]*members
	sorted []string // their names
}

// units are the Nodes, counted by the values of the unit keys in use: setting
// one costs the keys, not the Nodes.
type units struct {
	nodes map[string]node
	byKey map[string]*division
}

func newUnits() units {
	return units{nodes: map[string]node{}, byKey: map[string]*division{}}
}

// shift is a unit of a key that appeared, vanished, went dark, or is lit since
// another time.
type shift struct{ key, unit string }

// set adds or replaces a Node, or removes it where now is nil.
func (u *units) set(name string, now *node) (shifts []shift) {
	was, before := u.nodes[name]
	delete(u.nodes, name)
	next := node{}
	if now != nil {
		next, u.nodes[name] = *now, *now
	}
	there := now != nil
	for key, d := range u.byKey {
		from, to := was.labels[key], next.labels[key]
		if from == to && was.ready == next.ready && was.since.Equal(next.since) && before == there {
			continue
		}
		old, other := d.look(from), d.look(to)
		if before && there && from == to { // it has not left: since when the unit is there stays known
			d.units[to].mark(name, next)
		} else {
			if before {
				d.leave(from, name)
			}
			if there {
				d.join(to, name, next)
			}
		}
		if old != d.look(from) {
			shifts = append(shifts, shift{key, from})
		}
		if from != to && other != d.look(to) {
			shifts = append(shifts, shift{key, to})
		}
	}
	return shifts
}

// looks is what plans depend on of a unit.
type looks struct {
	there, dark bool
	lit         int64
}

func (d *division) look(unit string) looks {
	m := d.units[unit]
	if m == nil {
		return looks{}
	}
	return looks{true, m.dark(), m.lit().Unix()}
}

// join adds a node to a unit; an empty value is none.
func (d *division) join(unit, name string, n node) {
	if unit == "" {
		return
	}
	m := d.units[unit]
	if m == nil {
		m = &members{ready: map[string]time.Time{}}
		d.units[unit] = m
		at, _ := slices.BinarySearch(d.sorted, unit)
		d.sorted = slices.Insert(d.sorted, at, unit)
	}
	m.nodes++
	m.mark(name, n)
}

func (d *division) leave(unit, name string) {
	m := d.units[unit]
	if m == nil {
		return
	}
	delete(m.ready, name)
	if m.nodes--; m.nodes > 0 {
		return
	}
	delete(d.units, unit)
	if at, found := slices.BinarySearch(d.sorted, unit); found {
		d.sorted = slices.Delete(d.sorted, at, at+1)
	}
}

// use divides the Nodes by a key, where that was not in use before.
func (u *units) use(key string) {
	if u.byKey[key] != nil {
		return
	}
	d := &division{units: map[string]*members{}}
	values := map[string]bool{}
	for _, n := range u.nodes {
		values[n.labels[key]] = true
	}
	delete(values, "")
	d.sorted = slices.Sorted(maps.Keys(values)) // at once: each alone would move the others
	for _, unit := range d.sorted {
		d.units[unit] = &members{ready: map[string]time.Time{}}
	}
	for name, n := range u.nodes {
		d.join(n.labels[key], name, n)
	}
	u.byKey[key] = d
}

// drop forgets a key that is in use no longer.
func (u *units) drop(key string) { delete(u.byKey, key) }

// of are the units of a key in use.
func (u *units) of(key string) map[string]*members { return u.byKey[key].units }

// sorted are their names, in order; not to be kept.
func (u *units) sorted(key string) []string { return u.byKey[key].sorted }
