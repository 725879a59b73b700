package vote

import (
	"slices"
	"time"
)

// unit is one node of a unit, and what the others are to say to it.
type unit struct {
	*Machine
	now time.Time
}

// of makes the unit's node of a rank, of n nodes.
func of(n, rank int) *unit {
	v := NewView(members(n), Default("").Observers)
	u := &unit{New(Default(v.Ranked()[rank])), began}
	u.step(Members{v})
	return u
}

// leading makes the Lease's holder, of n nodes that are all well, as the cloud has it.
func leading(n int) *unit {
	u := of(n, 0)
	u.step(Uplink{true})
	u.step(Lease{u.now.Add(time.Hour)})
	for _, name := range u.view.Names() {
		u.step(Cloud{name, true, None, false, "", time.Time{}})
	}
	for range 4 {
		for _, w := range u.round(nil, allBut("", None)).Write {
			u.step(Cloud{w.Node, true, w.Verdict, false, "", time.Time{}})
		}
	}
	return u
}

func (u *unit) step(e Event) Effects { return u.Step(u.now, e) }

func (u *unit) rank(i int) string { return u.view.Ranked()[i] }

// round begins the next one, in which all others but some report what they say of each node.
func (u *unit) round(without []string, say func(from, of string) []Result) Effects {
	u.now = u.now.Add(u.cfg.Every).Truncate(u.cfg.Every)
	u.step(Tick{})
	own := map[string]bool{}
	for _, from := range u.view.Names() {
		var list []Result
		for _, subject := range u.view.Subjects(from) {
			list = append(list, say(from, subject)...)
		}
		if from == u.cfg.Self {
			for _, r := range list {
				own[r.Node] = r.Answer == Yes
			}
		} else if !slices.Contains(without, from) {
			u.step(Reported{From: from, Results: list, Up: true, Hears: true})
		}
	}
	return u.step(Checked{own})
}

// allBut say yes of each, but of one something else.
func allBut(node string, a Answer) func(from, of string) []Result {
	return func(_, of string) []Result {
		if of == node {
			return []Result{{of, a}}
		}
		return []Result{{of, Yes}}
	}
}

func without(v *View, name string) (list []Member) {
	for _, m := range members(v.Len()) {
		if m.Name != name {
			list = append(list, m)
		}
	}
	return list
}
