package plan

import (
	"github.com/gridmesh/gridmesh/api/names"
	apiv1 "github.com/gridmesh/gridmesh/api/v1"
)

// complete is the revision that all units ran last, where waves bring another one; or "".
func (g *tracked) complete() string {
	if g.waves == nil || g.workload == nil || g.workload.CompleteRevision == g.revision {
		return ""
	}
	return g.workload.CompleteRevision
}

// asComplete is the grid as it was complete last, in what revisions hold; or why that is
// not known.
func (g *tracked) asComplete() (was *grid, why string) {
	obj, there := g.revisions[g.complete()]
	if !there {
		return nil, "there is no such object: restore it, roll back to one that is there, or let the change go on"
	}
	content := dataOf(obj)
	if g.was == nil || g.wasOf != content {
		g.was, g.wasOf = g.as(value[Object](content.open(), "spec")), content
	}
	if len(g.was.templates) == 0 {
		return nil, "it holds no template: restore it, roll back to another, or let the change go on"
	}
	return g.was, ""
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

// isAsComplete reports whether the child of a unit is made of what was complete last.
func (g *tracked) isAsComplete(unit string) bool {
	live := g.live(unit)
	if live == nil || g.complete() == "" {
		return false
	}
	was, why := g.asComplete()
	if why != "" {
		return false
	}
	t, why := was.template(unit)
	return why == "" && was.desired(t, unit, live.ref.Name, live).hash == live.annotations[names.Applied]
}
