package plan

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/gridmesh/gridmesh/api/names"
	apiv1 "github.com/gridmesh/gridmesh/api/v1"
)

// What the laws know of units that failed, apart from the code under test.

// halt is the revision that a rollout stopped with.
type halt struct{ uid, revision string }

// noteStopped notes with which revision a rollout stopped last for units that failed: until
// that goes on, or nobody waits.
func (c *cluster) noteStopped(p Plan) {
	is := meta.FindStatusCondition(p.Workload.Conditions, apiv1.Progressing)
	_, waiting, _, sure := c.flocks(p)
	switch {
	case p.Workload.Units == 0: // what was so stays
	case is.Reason == Stopped && strings.HasPrefix(is.Message, "unit "):
		c.halts[p.Grid] = halt{p.UID, p.Workload.Revision}
	case c.halts[p.Grid].revision == p.Workload.Revision, sure && waiting == 0, !sure && p.Workload.Rollout.StoppedRevision == "":
		delete(c.halts, p.Grid)
	}
}

// stoppedWith reports whether a rollout stopped with what a unit's child was made of.
func (c *cluster) stoppedWith(p Plan, unit string, made Object) bool {
	is, stopped := c.halts[p.Grid]
	obj := c.objects[Ref{RevisionKind, p.Grid.Namespace, is.revision}]
	return stopped && is.uid == p.UID && obj != nil && reflect.DeepEqual(templateOf(value[Object](obj, "data", "spec"), unit), made)
}

// failing are units that failed, and what they were to have.
type failing struct {
	uid, key string
	units    map[string]Object
}

// checkFailed: no wave begins while more units than may failed and were not well since, in
// sight or not, but for those that are to have something else by now.
func checkFailed(t *testing.T, seed uint64, c *cluster, p Plan, count map[string]int) {
	t.Helper()
	spec := value[Object](c.objects[p.Grid], "spec")
	f := c.failing[p.Grid]
	if value[Object](spec, "rollout") == nil || f.uid != p.UID || f.key != p.UnitKey {
		f = failing{p.UID, p.UnitKey, map[string]Object{}}
	}
	c.failing[p.Grid] = f
	if p.Workload == nil || value[Object](spec, "rollout") == nil || p.Workload.Units == 0 {
		return
	}
	hidden := 0
	for unit, made := range f.units {
		at := slices.IndexFunc(p.Steps, func(s Step) bool { return s.Unit == unit && !s.leaving() })
		switch {
		case !reflect.DeepEqual(templateOf(spec, unit), made), at < 0 && !c.hasChild(p, unit), at >= 0 && p.Steps[at].Updated:
			delete(f.units, unit)
		case at < 0 || p.Steps[at].Dark:
			hidden++
		}
	}
	if begins := slices.ContainsFunc(p.Events, func(e Event) bool { return e.Reason == "WaveBegins" }); begins && int64(len(f.units)) > integer(spec, 0, "rollout", "maxFailedUnits") {
		t.Fatalf("seed %d: a wave of %s begins, and units failed that were not well since: %v", seed, p.Grid, f.units)
	}
	if hidden > 0 {
		count["failed and hidden"]++
	}
	for _, s := range p.Steps {
		if s.Action == Keep && !s.Updated && !s.Dark && c.now.Sub(s.appliedAt) >= 10*time.Minute && c.now.Sub(s.members.lit()) >= 10*time.Minute && !s.appliedAt.IsZero() {
			f.units[s.Unit] = templateOf(spec, s.Unit)
		}
	}
}

// hasChild reports whether a unit has a child of the grid.
func (c *cluster) hasChild(p Plan, unit string) bool {
	return slices.ContainsFunc(c.refs("Deployment", "StatefulSet"), func(ref Ref) bool {
		obj := c.objects[ref]
		return value[string](controllerOf(obj), "uid") == p.UID && value[string](obj, "metadata", "annotations", names.Unit) == unit
	})
}
