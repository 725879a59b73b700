package plan

import (
	"cmp"
	"maps"
	"slices"
)

// before is what a child begins with that is made where the change has not come to.
type before struct {
	due      bool   // there is such: units wait for the change
	untold   bool   // nobody can tell what that is
	waits    bool   // a child does, though that may not matter any more
	revision string // the one that has it; "" where none is kept that has
	was      *grid  // the grid as that has it
}

// before follows from what the children bear: it is what most of those have that wait for
// the change, and was there before that. Who is dark, without a node or refused bears what
// it bore, so nothing is vouched for by who goes out of sight. Who does not say what that is
// counts as well: while those may be the most, nobody can tell what is. It is not due where
// no turn is to come any more, and those that wait all the same are fewer than half: to
// catch up is theirs.
func (g *tracked) before(steps []Step) before {
	if g.waves == nil {
		return before{}
	}
	waiting, all := g.waiting()
	if len(waiting) == 0 {
		g.was = nil
		return before{}
	}
	if !g.comes(steps) && 2*len(waiting) < all {
		return before{waits: true}
	}
	most := g.most(waiting, steps)
	if most == nil {
		return before{waits: true}
	}
	return before{due: true, untold: most.untold, waits: true, revision: most.in.Name, was: g.asIn(most.in.Name)}
}

// comes reports whether a turn is to come: a unit that could take the change waits for it.
func (g *tracked) comes(steps []Step) bool {
	return slices.ContainsFunc(steps, func(s Step) bool {
		_, tried := g.failure(s)
		return s.changed && !s.Dark && !tried
	})
}

// waits is a child that bears another template than the grid has for its unit.
type waits struct {
	*child
	bears string // the hash of that; "" where nobody can tell
}

// waiting are the children that wait for the change, by unit, and how many there are of
// all.
func (g *tracked) waiting() (list map[string]waits, all int) {
	list = map[string]waits{}
	b := bearing{tracked: g}
	for unit := range g.children {
		c := g.live(unit)
		if !g.made(c) {
			continue
		}
		all++
		bears := b.of(unit, c)
		if t, why := g.template(unit); why != "" || t.sum != bears {
			list[unit] = waits{c, bears}
		}
	}
	return list, all
}

// group are children that bear one template; or those of which nobody can tell.
type group struct {
	well, all int      // those of which nothing is known that speaks against it, as of all untold ones, and all of them
	in        Revision // the newest before the grid's own that has it; none for one that is lost
	untold    bool
	stopped   bool // a rollout stopped with it: only who is seen to be well speaks for it
}

// compare orders groups, the one that others follow first: where those of which nobody can
// tell are as many, they do. Of two the elder is known better.
func (a *group) compare(b *group) int {
	return cmp.Or(cmp.Compare(b.well, a.well), first(a.untold, b.untold), first(b.stopped, a.stopped), cmp.Compare(b.all, a.all),
		first(a.in.Name != "", b.in.Name != ""), compareAge(a.in, b.in))
}

// first orders what is so before what is not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// most is the largest group of children, or nil where what they bear came later than what
// the grid says: what one goes back to is not held back.
func (g *tracked) most(waiting map[string]waits, steps []Step) *group {
	lit := map[string]bool{}
	for _, s := range steps {
		lit[s.Unit] = !s.Dark
	}
	groups := map[string]*group{}
	for _, unit := range slices.Sorted(maps.Keys(waiting)) {
		c := waiting[unit]
		is, known := groups[c.bears]
		if !known {
			is = g.groupOf(unit, c.bears)
			groups[c.bears] = is
		}
		if is == nil {
			continue
		}
		is.all++
		if _, whole := c.progress(); whole || is.untold || !lit[unit] && !is.stopped {
			is.well++
		}
	}
	maps.DeleteFunc(groups, func(_ string, is *group) bool { return is == nil })
	if len(groups) == 0 {
		return nil
	}
	return slices.MinFunc(slices.Collect(maps.Values(groups)), (*group).compare)
}

// groupOf looks for the revision that has a template for a unit; nil where that came later
// than the grid's own.
func (g *tracked) groupOf(unit, bears string) *group {
	if bears == "" {
		return &group{untold: true}
	}
	own, known := g.ownRevision(g.revision)
	later := false
	for _, r := range g.lookedAt() {
		if r.Name == g.revision || !g.has(r.Name, unit, bears) {
			continue
		}
		if !known || compareAge(r, revisionOf(own)) < 0 {
			return &group{in: r, stopped: g.has(g.stoppedWith(), unit, bears)}
		}
		later = true
	}
	if later {
		return nil
	}
	return &group{}
}

// has reports whether a revision has that template for a unit.
func (g *tracked) has(revision, unit, template string) bool {
	was := g.asIn(revision)
	if was == nil {
		return false
	}
	t, _ := was.template(unit)
	return t != nil && t.sum == template
}

// stoppedWith is the revision that a rollout stopped with last, or "".
func (g *tracked) stoppedWith() string {
	if g.workload == nil || g.workload.Rollout == nil {
		return ""
	}
	return g.workload.Rollout.StoppedRevision
}
