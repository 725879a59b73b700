package grid

import (
	"context"
	"errors"
	"sync"

	"github.com/gridmesh/gridmesh/grid/plan"
	"github.com/gridmesh/gridmesh/internal/obs"
)

// job is what one worker does for one grid, and what came of it.
type job struct {
	plan   plan.Plan
	steps  []plan.Step
	status bool // is to be written
	more   bool // steps are left for another job
	events []plan.Event
	// version is the grid's, as the mirror shows it before its status is written.
	version string
	// answers are the children that others change again and again: the grid's
	// Problem says so, not an Event for each write.
	answers map[string]bool

	mu        sync.Mutex
	wrote     bool // the status
	failed    int
	wroteOwn  bool  // something was written that concerns the grid itself
	ownFailed bool  // what failed concerns it
	why       error // of the first failure
	objects   []map[string]any
	taken     []plan.Ref
	deleted   map[plan.Ref]string      // with the version that was
	outcomes  map[string]plan.Failure  // of what was written to, by Step.Key
	units     map[plan.Action][]string // done, by action

	// gone is what the mirror told of as deleted since the job began. The
	// controller's mu guards it.
	gone map[plan.Ref]bool
}

func (j *job) empty() bool {
	p := j.plan
	return len(j.steps) == 0 && !j.status && p.Revision == nil && len(p.Expired) == 0 && len(p.Unused) == 0 && len(j.events) == 0
}

// carryOut does a job. The status comes first, for it may hold what a successor
// must know before the steps; what the steps lead to, a later plan says.
func (c *Controller) carryOut(ctx context.Context, j *job) {
	j.units, j.outcomes, j.deleted = map[plan.Action][]string{}, map[string]plan.Failure{}, map[plan.Ref]string{}
	p := j.plan
	if p.Revision != nil {
		j.noteOwn(c.applyRevision(ctx, p.Grid.Namespace, p.Revision))
	}
	if j.status {
		j.wrote = j.noteOwn(nil, c.api.WriteStatus(ctx, p.Grid.Kind, p.Grid.Namespace, p.Grid.Name, p.UID, p.Status()))
	}
	if !p.StatusFirst || j.wrote {
		c.steps(ctx, j)
	}
	for _, name := range p.Expired {
		j.noteOwn(nil, c.api.Delete(ctx, plan.RevisionKind, p.Grid.Namespace, name, ""))
	}
	if len(p.Unused) > 0 {
		j.noteOwn(nil, c.prune(ctx, p))
	}
	if ctx.Err() == nil {
		if j.ownFailed { // which may hold the children up
			c.cfg.Metrics.failures.Inc()
		}
		c.record(j)
	}
}

// note takes in what a write led to, and reports whether it went well.
func (j *job) note(obj map[string]any, err error) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		if j.failed++; j.why == nil {
			j.why = err
		}
		return false
	}
	if obj != nil {
		j.objects = append(j.objects, obj)
	}
	return true
}

// noteOwn takes in a write that concerns the grid itself.
func (j *job) noteOwn(obj map[string]any, err error) bool {
	ok := j.note(obj, err)
	j.wroteOwn, j.ownFailed = true, j.ownFailed || !ok
	return ok
}

// prune drops unused entries of the template pool, unless the grid changed.
func (c *Controller) prune(ctx context.Context, p plan.Plan) error {
	live, err := c.api.Live(ctx, p.Grid.Kind, p.Grid.Namespace, p.Grid.Name)
	if err != nil || live == nil || p.Workload.ObservedGeneration != meta(live).GetGeneration() {
		return err // planned anew when the change arrives
	}
	pool := map[string]any{}
	for _, name := range p.Unused {
		pool[name] = nil
	}
	_, err = c.api.Merge(ctx, p.Grid.Kind, p.Grid.Namespace, p.Grid.Name, map[string]any{
		"metadata": map[string]any{"resourceVersion": meta(live).GetResourceVersion()}, "spec": map[string]any{"templatePool": pool},
	})
	return err
}

// slotSize is the text that one of the slots is for. What is written is decoded
// twice, as it is sent and as it is answered, and takes up to forty times its text
// each time: that must not be so for all writes at once.
const slotSize = 64 << 10

// enter waits until an object of a namespace and a size may be written; leave ends
// that. It fails when ctx ends. A write may hang: none has more slots than its namespace
// has places, and one that would need more is the only such (shares.enter).
func (c *Controller) enter(ctx context.Context, namespace string, size int) (leave func(), err error) {
	n := 1 + size/slotSize
	out, err := c.shares.enter(ctx, namespace, n)
	if err != nil {
		return nil, err
	}
	slots := int64(min(n, c.shares.each))
	if err := c.slots.Acquire(ctx, slots); err != nil {
		out()
		return nil, err
	}
	return func() { c.slots.Release(slots); out() }, nil
}

func (c *Controller) applyRevision(ctx context.Context, namespace string, r *plan.NewRevision) (map[string]any, error) {
	leave, err := c.enter(ctx, namespace, r.Size())
	if err != nil {
		return nil, err
	}
	defer leave()
	return c.api.Apply(ctx, r.Object(), plan.Manager)
}

func (c *Controller) steps(ctx context.Context, j *job) {
	var wg sync.WaitGroup
	for _, s := range j.steps {
		leave, err := c.enter(ctx, j.plan.Grid.Namespace, s.Size)
		if err != nil {
			break
		}
		wg.Go(func() {
			defer leave()
			c.step(ctx, j, s)
		})
	}
	wg.Wait()
}

func (c *Controller) step(ctx context.Context, j *job, s plan.Step) {
	grid, child := j.plan.Grid, plan.Ref{Kind: s.Kind, Namespace: j.plan.Grid.Namespace, Name: s.Name}
	action := string(s.Action)
	if s.Unmark && s.Hash() == "" {
		action = "unmark"
	}
	c.cfg.Metrics.writes.WithLabelValues(action).Inc()
	c.cfg.Log.Debug("child of a grid", obs.KeyAction, action, obs.KeyGrid, grid.String(), obs.KeyUnit, s.Unit, obs.KeyChild, child.String(), obs.KeyWhy, s.Why)
	now, failure := c.write(ctx, j.plan, s, child)
	taken, stale := errors.Is(failure, errTaken), errors.Is(failure, errStale)
	if taken || stale {
		failure = nil
	}
	ok := j.note(now, failure)
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case taken:
		j.taken = append(j.taken, child)
	case stale:
		j.more = true
	case ok:
		j.outcomes[s.Key()] = plan.Failure{}
		if !j.answers[s.Name] {
			j.units[s.Action] = append(j.units[s.Action], s.Unit)
		}
		if s.Action == plan.Remove {
			j.deleted[child] = s.Version
		}
	case ctx.Err() == nil:
		c.cfg.Metrics.failures.Inc()
		f := failureOf(failure, c.now())
		f.Hash = s.Hash()
		j.outcomes[s.Key()] = f
	}
}
