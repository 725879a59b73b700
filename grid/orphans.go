package grid

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gridmesh/gridmesh/grid/plan"
	"github.com/gridmesh/gridmesh/internal/obs"
)

// orphanGrace is how long Kubernetes' garbage collector has for what a grid that
// is no more has left, and then the pause between two looks at it.
const orphanGrace = time.Minute

// collectFor is how long deletions may begin in one namespace, each time that orphans are
// looked at: they may hang there, and the next look is for everybody.
const collectFor = 10 * time.Second

// orphan is what a grid of a UID left, of whatever version.
type orphan struct {
	plan.Ref
	grid string
}

func orphanOf(o plan.Orphan) orphan { return orphan{o.Ref, o.UID} }

// collect deletes what grids that are no more have left, and the garbage collector
// passed over. That knows owners by their UIDs, and hears of their ends from
// watches: where a grid was deleted and made anew while one was broken, the list
// that follows has the name, which is told as an update (kubernetes#133565; so in
// 1.36). It does not hear that the first grid is gone, and looks at nothing of it
// until it is started again; nor does a child of that name let the second have its own.
func (c *Controller) collect(ctx context.Context) {
	failed := map[string]bool{}          // kinds that cannot be asked for
	gone := map[string][][]plan.Orphan{} // by namespace
	for _, left := range c.overdue() {
		grid, uid := left[0].Grid, left[0].UID
		if failed[grid.Kind] || ctx.Err() != nil {
			continue
		}
		live, err := c.api.Live(ctx, grid.Kind, grid.Namespace, grid.Name)
		switch {
		case err != nil:
			failed[grid.Kind] = true
			c.cfg.Log.Debug("cannot ask whether a grid is gone; asked again", obs.KeyGrid, grid.String(), obs.KeyErr, err)
		case string(meta(live).GetUID()) != uid: // else the mirror is behind
			gone[grid.Namespace] = append(gone[grid.Namespace], left)
		}
	}
	var wg sync.WaitGroup
	for _, grids := range gone {
		wg.Go(func() {
			turn, cancel := context.WithTimeout(ctx, collectFor)
			defer cancel()
			for _, left := range grids {
				c.deleteLeft(ctx, turn, left)
			}
		})
	}
	wg.Wait()
}

// overdue are orphans that the garbage collector has had its time for, a page of
// them, by grid and UID; those that nobody looked at for longest come first.
func (c *Controller) overdue() [][]plan.Orphan {
	c.mu.Lock()
	list := c.index.Orphans()
	c.mu.Unlock()
	now, looked := c.now(), make(map[orphan]time.Time, len(list))
	var due []plan.Orphan
	for _, o := range list {
		at, known := c.looked[orphanOf(o)]
		if !known {
			at = now
		}
		if looked[orphanOf(o)] = at; now.Sub(at) >= orphanGrace {
			due = append(due, o)
		}
	}
	c.looked = looked
	slices.SortStableFunc(due, func(a, b plan.Orphan) int { return looked[orphanOf(a)].Compare(looked[orphanOf(b)]) })
	due = due[:min(len(due), confirmMost)]
	for _, o := range due {
		looked[orphanOf(o)] = now
	}
	slices.SortFunc(due, func(a, b plan.Orphan) int {
		return cmp.Or(strings.Compare(a.Grid.String(), b.Grid.String()), strings.Compare(a.UID, b.UID), strings.Compare(a.String(), b.String()))
	})
	var groups [][]plan.Orphan
	for i, o := range due {
		if i == 0 || o.Grid != due[i-1].Grid || o.UID != due[i-1].UID {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], o)
	}
	return groups
}

// deleteLeft deletes what one grid has left, until turn ends; the rest is looked at again.
// So is an object that is of another version than was seen: it may have another owner, or
// none. One with which the turn ended comes after the rest the next time.
func (c *Controller) deleteLeft(ctx, turn context.Context, left []plan.Orphan) {
	var deleted []string
	var why error
	for _, o := range left {
		leave, err := c.enter(turn, o.Namespace, 0)
		if err != nil {
			break
		}
		err = c.api.Delete(ctx, o.Kind, o.Namespace, o.Name, o.Version)
		leave()
		if turn.Err() != nil {
			c.mu.Lock()
			c.looked[orphanOf(o)] = c.now()
			c.mu.Unlock()
		}
		c.cfg.Metrics.writes.WithLabelValues("collect").Inc()
		switch {
		case err == nil:
			deleted = append(deleted, o.String())
		case !apierrors.IsConflict(err) && ctx.Err() == nil:
			why = err
			c.cfg.Metrics.failures.Inc()
		}
	}
	grid := left[0].Grid.String()
	if why != nil {
		c.cfg.Log.Error("could not delete what a grid has left; trying again", obs.KeyGrid, grid, obs.KeyErr, why)
	}
	if len(deleted) > 0 {
		c.cfg.Log.Warn("deleted what a grid has left, for the garbage collector passed over it", obs.KeyGrid, grid, obs.KeyWhich, plan.Short(deleted))
		c.cfg.Events.Event(aboutGrid(left[0].Grid, left[0].UID), corev1.EventTypeWarning, "Removed",
			fmt.Sprintf("deleted %d objects of this grid, which is no more, for the garbage collector passed over them: %s", len(deleted), plan.Short(deleted)))
	}
}
