package plan

import (
	"maps"

	"github.com/gridmesh/gridmesh/api/names"
	apiv1 "github.com/gridmesh/gridmesh/api/v1"
)

// bearing finds out which template children bear: that of which they were made. Most say
// so. An earlier version of this controller noted a hash of all that it applied; what that
// is of is found among the revisions, with the labels that the grid has or the child.
type bearing struct {
	*tracked
	among []*grid // as the grid is, and as its revisions have it, the newest first; made when needed
}

// of is the template that a child bears, by its hash; "" where nobody can tell, as of what
// another controller made, until it is adopted.
func (b *bearing) of(unit string, c *child) string {
	if says := c.annotations[names.AppliedTemplate]; says != "" {
		return says
	}
	if is := b.assessed[unit]; is != nil && is.child == c && is.step.asTold() {
		if t, _ := b.template(unit); t != nil {
			return t.sum
		}
	}
	if c.annotations[names.Applied] == "" {
		return ""
	}
	if b.among == nil {
		b.among = []*grid{b.grid}
		for _, r := range b.lookedAt() {
			if was := b.asIn(r.Name); was != nil && r.Name != b.revision {
				b.among = append(b.among, was)
			}
		}
	}
	if t := b.applied(unit, c, b.bears); t != "" {
		return t
	}
	return b.applied(unit, c, c.allLabels())
}

// applied looks for the template that was applied to a child with such labels.
func (b *bearing) applied(unit string, c *child, labels map[string]string) string {
	for i, g := range b.among {
		t, _ := g.template(unit)
		if t != nil && g.draft(t, unit, c.ref.Name, nil).hashWith(labels) == c.annotations[names.Applied] {
			b.among[0], b.among[i] = g, b.among[0] // most bear the same: it is tried first
			return t.sum
		}
	}
	return ""
}

// asIn is the grid as a revision has it; nil where that is not there, or holds no template.
func (g *tracked) asIn(revision string) *grid {
	obj, there := g.ownRevision(revision)
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
