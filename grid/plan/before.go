package plan

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gridmesh/gridmesh/api/names"
	apiv1 "github.com/gridmesh/gridmesh/api/v1"
)

// before is what a child begins with that is made where the change has not come to.
type before struct {
	due      bool   // there is such: units wait for the change
	waits    bool   // a child does, though that may not matter any more
	revision string // the one that has it; "" where none is kept that has
	was      *grid  // the grid as that has it
}

// before follows from what the children bear: it is what most of those have that wait for
// the change, and was there before that. Who is dark, without a node or refused bears what
// it bore, so nothing is vouched for by who goes out of sight. It is not due where no turn
// is to come any more, and those that wait all the same are fewer than half: to catch up
// is theirs.
func (g *tracked) before(steps []Step) before {
	if g.waves == nil {
		return before{}
	}
	waiting, all := g.waiting()
	if len(waiting) == 0 || !g.comes(steps) && 2*len(waiting) < all {
		g.was = nil
		return before{waits: len(waiting) > 0}
	}
	most := g.most(waiting, steps)
	if most == nil {
		return before{waits: true}
	}
	return before{due: true, waits: true, revision: most.in.Name, was: g.asIn(most.in.Name)}
}

// comes reports whether a turn is to come: a unit that could take the change waits for it.
func (g *tracked) comes(steps []Step) bool {
	return slices.ContainsFunc(steps, func(s Step) bool {
		_, tried := g.failure(s)
		return s.changed && !s.Dark && !tried
	})
}

// waiting are the children that bear another template than the grid has for their unit,
// by unit, and how many say which one they bear.
func (g *tracked) waiting() (list map[string]*child, all int) {
	list = map[string]*child{}
	for unit := range g.children {
		c := g.live(unit)
		bears := c.annotations[names.AppliedTemplate]
		if bears == "" || !g.made(c) {
			continue
		}
		all++
		if t, why := g.template(unit); why != "" || t.sum != bears {
			list[unit] = c
		}
	}
	return list, all
}

// group are children that bear one template.
type group struct {
	well, all int      // those of which nothing is known that speaks against it, and all of them
	in        Revision // the newest before the grid's own that has it; none for one that is lost
}

// compare orders groups, the one that others follow first. Of two the elder is known better.
func (a *group) compare(b *group) int {
	return cmp.Or(cmp.Compare(b.well, a.well), cmp.Compare(b.all, a.all), cmp.Compare(min(1, len(b.in.Name)), min(1, len(a.in.Name))), cmp.Compare(a.in.First, b.in.First))
}

// most is the largest group of children, or nil where what they bear came later than what
// the grid says: what one goes back to is not held back.
func (g *tracked) most(waiting map[string]*child, steps []Step) *group {
	lit := map[string]bool{}
	for _, s := range steps {
		lit[s.Unit] = !s.Dark
	}
	groups := map[string]*group{}
	for _, unit := range slices.Sorted(maps.Keys(waiting)) {
		c := waiting[unit]
		bears := c.annotations[names.AppliedTemplate]
		if _, known := groups[bears]; !known {
			groups[bears] = g.groupOf(unit, bears)
		}
		if groups[bears] == nil {
			continue
		}
		groups[bears].all++
		if _, whole := c.progress(); whole || !lit[unit] {
			groups[bears].well++
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
	own, known := g.revisions[g.revision]
	later := false
	for _, r := range Revisions(g.uid, slices.Collect(maps.Values(g.revisions))) {
		if r.Name == g.revision {
			continue
		}
		if t, _ := g.asIn(r.Name).template(unit); t == nil || t.sum != bears {
			continue
		}
		if !known || r.First < revisionOf(own).First {
			return &group{in: r}
		}
		later = true
	}
	if later {
		return nil
	}
	return &group{}
}

// asIn is the grid as a revision has it; nil where that is not there, or holds no template.
func (g *tracked) asIn(revision string) *grid {
	obj, there := g.revisions[revision]
	if !there {
		return nil
	}
	content := dataOf(obj)
	if last := g.was[revision]; last.of == content {
		return last.grid
	}
	is := g.as(value[Object](content.open(), "spec"))
	if g.was == nil {
		g.was = map[string]asWas{}
	}
	maps.DeleteFunc(g.was, func(name string, _ asWas) bool { _, there := g.revisions[name]; return !there })
	g.was[revision] = asWas{content, is}
	return is
}

// as is the grid with the content of another revision.
func (g *grid) as(content Object) *grid {
	was := *g
	was.templates, was.problems, was.spec = map[string]*template{}, nil, decodeSpec(content, true)
	if main := value[Object](content, "template"); len(main) > 0 {
		was.templates[apiv1.DefaultTemplate] = was.prepare(main)
		was.decodeTemplates(content, main)
	}
	return &was
}
