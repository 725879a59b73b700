package plan

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/gridmesh/gridmesh/api/names"
	apiv1 "github.com/gridmesh/gridmesh/api/v1"
)

// turn is how far a rollout is, by the waves that began: of which revision, and in which
// order.
type turn struct{ uid, revision, order, through string }

// early reports whether an earlier version of the controller leads, which
// notes neither of which template a child was made nor the first number of a revision.
func (c *cluster) early() bool { return c.steps%8 < 3 }

// noteTurn notes the waves that begin.
func (c *cluster) noteTurn(p Plan) {
	for _, e := range p.Events {
		if e.Reason == "WaveBegins" {
			c.turns[p.Grid] = turn{p.UID, p.Workload.Revision, c.orderOf(p.Grid), p.Workload.Rollout.Through}
		}
	}
}

func (c *cluster) orderOf(grid Ref) string {
	data, err := json.Marshal(value[[]any](c.objects[grid], "spec", "rollout", "order"))
	if err != nil {
		panic(err)
	}
	return string(data)
}

// came reports whether a wave of the change, as it is, has gone as far as a unit.
func (c *cluster) came(p Plan, unit string) bool {
	is, known := c.turns[p.Grid]
	if !known || is != (turn{p.UID, p.Workload.Revision, c.orderOf(p.Grid), is.through}) {
		return false
	}
	order := value[[]any](c.objects[p.Grid], "spec", "rollout", "order")
	place := func(unit string) int {
		if i := slices.Index(order, any(unit)); i >= 0 {
			return i
		}
		return len(order)
	}
	if a, b := place(unit), place(is.through); a != b || a < len(order) {
		return a <= b
	}
	return unit <= is.through
}

// templateOf is what a spec has for a unit, read apart from the code under test.
func templateOf(spec Object, unit string) Object {
	name := value[string](spec, "templates", unit)
	if name == "" || name == "default" {
		return value[Object](spec, "template")
	}
	return value[Object](spec, "templatePool", name)
}

// noteMade notes of what a child is made.
func (c *cluster) noteMade(p Plan, s Step, ref Ref) {
	spec := value[Object](c.objects[p.Grid], "spec")
	if s.begins(p) {
		spec = value[Object](c.objects[Ref{RevisionKind, p.Grid.Namespace, s.desired.grid.revision}], "data", "spec")
	}
	c.made[ref] = clone(templateOf(spec, s.Unit))
}

// begins reports whether a child begins with another revision than the grid's.
func (s Step) begins(p Plan) bool {
	return s.desired != nil && s.desired.grid.revision != p.Workload.Revision
}

// flock are children made of one template: how many, and of how many nothing bad is known.
type flock struct {
	unit      string
	made      Object // nil for those of which nobody can tell
	all, well int
	in        Object // the revision, or nil
	later     bool
	stopped   bool
}

// before reports whether others follow a flock rather than another.
func (f *flock) before(o *flock) bool {
	switch {
	case f.well != o.well:
		return f.well > o.well
	case (f.made == nil) != (o.made == nil):
		return f.made == nil
	case f.stopped != o.stopped:
		return o.stopped
	case f.all != o.all:
		return f.all > o.all
	}
	return f.in != nil && (o.in == nil || elder(f.in, o.in))
}

// flocks are the children that wait for the change, by what they were made of, and how many
// wait, of all. Sure is false where a unit has more than one child.
func (c *cluster) flocks(p Plan) (flocks []*flock, waiting, all int, sure bool) {
	units := map[string]bool{}
	for _, ref := range c.refs("Deployment", "StatefulSet") {
		obj := c.objects[ref]
		unit, made := value[string](obj, "metadata", "annotations", names.Unit), c.made[ref]
		if value[string](controllerOf(obj), "uid") != p.UID || made == nil {
			continue
		}
		if units[unit] {
			return nil, 0, 0, false
		}
		units[unit] = true
		all++
		if !c.told(p, obj, unit, made) {
			made = nil
		} else if reflect.DeepEqual(made, templateOf(value[Object](c.objects[p.Grid], "spec"), unit)) {
			continue
		}
		waiting++
		at := slices.IndexFunc(flocks, func(f *flock) bool { return reflect.DeepEqual(f.made, made) })
		if at < 0 {
			at, flocks = len(flocks), append(flocks, &flock{unit: unit, made: made, stopped: made != nil && c.stoppedWith(p, unit, made)})
		}
		f := flocks[at]
		f.unit = min(f.unit, unit)
		f.all++
		if _, whole := readChild(obj).progress(); whole || made == nil || !f.stopped && !c.lit(p.UnitKey, unit) {
			f.well++
		}
	}
	return flocks, waiting, all, true
}

// told reports whether a child, or a revision that is kept, tells of what it was made.
func (c *cluster) told(p Plan, obj Object, unit string, made Object) bool {
	if value[string](obj, "metadata", "annotations", names.AppliedTemplate) != "" {
		return true
	}
	is := func(spec Object) bool { return reflect.DeepEqual(templateOf(spec, unit), made) }
	return value[string](obj, "metadata", "annotations", names.UnitKey) == p.UnitKey && (is(value[Object](c.objects[p.Grid], "spec")) ||
		slices.ContainsFunc(c.refs(RevisionKind), func(ref Ref) bool {
			r := c.objects[ref]
			return value[string](controllerOf(r), "uid") == p.UID && is(value[Object](r, "data", "spec"))
		}))
}

// former is what most children have that wait for the change, by what they were made of:
// the spec that a revision holds, nil for one that is lost. Not due is none.
func (c *cluster) former(p Plan) (spec Object, due, sure bool) {
	flocks, waiting, all, sure := c.flocks(p)
	comes := slices.ContainsFunc(p.Steps, func(s Step) bool { return s.changed && !s.Dark })
	if !sure || waiting == 0 || !comes && 2*waiting < all {
		return nil, false, sure
	}
	for _, f := range flocks {
		c.search(p, f)
	}
	flocks = slices.DeleteFunc(flocks, func(f *flock) bool { return f.later })
	if len(flocks) == 0 {
		return nil, false, true
	}
	best := flocks[0]
	for _, f := range flocks[1:] {
		if f.before(best) {
			best = f
		}
	}
	return value[Object](best.in, "data", "spec"), true, true
}

// search finds the newest revision before the grid's own that has what a flock was made of.
func (c *cluster) search(p Plan, f *flock) {
	if f.made == nil {
		return
	}
	own, found := c.objects[Ref{RevisionKind, p.Grid.Namespace, p.Workload.Revision}], false
	for _, ref := range c.refs(RevisionKind) {
		obj := c.objects[ref]
		if value[string](controllerOf(obj), "uid") != p.UID || ref.Name == p.Workload.Revision || !reflect.DeepEqual(templateOf(value[Object](obj, "data", "spec"), f.unit), f.made) {
			continue
		}
		switch {
		case own != nil && !elder(obj, own):
			found = true
		case f.in == nil || integer(obj, 0, "revision") > integer(f.in, 0, "revision"):
			f.in = obj
		}
	}
	f.later = found && f.in == nil
}

// elder reports whether a revision is the elder of two: no other gives it another time.
func elder(a, b Object) bool {
	at := func(o Object) string { return value[string](o, "metadata", "creationTimestamp") }
	return at(a) < at(b) || at(a) == at(b) && integer(a, 0, "revision") < integer(b, 0, "revision")
}

// lit reports whether a node of a unit is ready.
func (c *cluster) lit(key, unit string) bool {
	return slices.ContainsFunc(c.refs("Node"), func(ref Ref) bool {
		n := readNode(c.objects[ref])
		return n.labels[key] == unit && n.ready
	})
}

// checkBegin: outside its turn, and while a rollout is stopped or paused, a child that is
// made has what most of those have that wait for the change; in its turn the change.
func checkBegin(t *testing.T, seed uint64, c *cluster, p Plan, count map[string]int) {
	t.Helper()
	if p.Workload == nil || value[Object](c.objects[p.Grid], "spec", "rollout") == nil {
		return
	}
	c.noteTurn(p)
	defer c.noteStopped(p)
	if !slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Action == Create }) {
		return
	}
	former, due, sure := c.former(p)
	if !sure {
		return
	}
	halted := meta.IsStatusConditionFalse(p.Workload.Conditions, apiv1.Progressing)
	for _, s := range p.Steps {
		if s.Action != Create {
			continue
		}
		want, whose := former, "most have that wait"
		switch {
		case !due:
			want, whose = value[Object](c.objects[p.Grid], "spec"), "the grid says, for nobody waits"
		case halted:
			count["made meanwhile"]++
		case s.Dark:
			count["made dark"]++
		case c.came(p, s.Unit):
			want, whose = value[Object](c.objects[p.Grid], "spec"), "the grid says, in its turn"
			count["made in its turn"]++
		default:
			count["made early"]++
		}
		if s.begins(p) {
			count["begins with another"]++
		}
		if due && former == nil {
			count["nobody can tell"]++
		}
		containers := []string{"spec", "template", "spec", "containers"}
		got := value[any](s.Object(c.now), containers...)
		if wanted := value[any](templateOf(want, s.Unit), containers[1:]...); !reflect.DeepEqual(got, wanted) {
			t.Fatalf("seed %d: unit %s of %s begins with %v, and %v is what %s (%s)", seed, s.Unit, p.Grid, got, wanted, whose, strings.TrimSpace(s.Why))
		}
	}
}
