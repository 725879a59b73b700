package swim

import "slices"

// send sends a message with what is to be told besides.
func (u *unit) send(i, to int, got func()) {
	told := u.tell(i)
	u.w.Send(i, to, pingBytes+saidBytes*len(told), func() {
		for _, s := range told {
			u.take(to, s)
		}
		got()
	})
}

// tell takes what was told least, and forgets what was told often enough.
func (u *unit) tell(i int) []said {
	a := &u.nodes[i]
	if len(a.rumors) == 0 {
		return nil
	}
	slices.SortStableFunc(a.rumors, func(x, y rumor) int { return y.left - x.left })
	list := make([]said, 0, mostSaid)
	for k := range a.rumors[:min(mostSaid, len(a.rumors))] {
		a.rumors[k].left--
		list = append(list, a.rumors[k].said)
	}
	a.rumors = slices.DeleteFunc(a.rumors, func(r rumor) bool { return r.left <= 0 })
	return list
}

// queue has something told, and no more what it replaces.
func (u *unit) queue(i int, s said) {
	a := &u.nodes[i]
	a.rumors = slices.DeleteFunc(a.rumors, func(r rumor) bool { return r.about == s.about })
	a.rumors = append(a.rumors, rumor{s, spread * u.log})
}

// take takes something for true where it is newer than what a node knew, and tells it on.
func (u *unit) take(i int, s said) {
	a, about := &u.nodes[i], int(s.about)
	b := &a.of[about]
	if about == i {
		if s.state != alive && s.incarnation >= b.incarnation { // it is not so
			b.incarnation = s.incarnation + 1
			u.queue(i, said{s.about, alive, b.incarnation})
		}
		return
	}
	if s.incarnation < b.incarnation || s.incarnation == b.incarnation && s.state <= b.state {
		return
	}
	was := b.state
	*b = belief{s.state, s.incarnation, u.w.Now()}
	u.queue(i, s)
	if was == dead || s.state == dead {
		u.w.Verdict(i, about, s.state == dead)
	}
	if s.state == suspect {
		since := b.since
		u.w.After(i, suspicion(u.log), func() {
			if b.state == suspect && b.since == since {
				u.take(i, said{s.about, dead, b.incarnation})
			}
		})
	}
}
