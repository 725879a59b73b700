package grid

import (
	"context"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/gridmesh/gridmesh/grid/plan"
)

// Mirror is what is known of the cluster.
type Mirror interface {
	// Wake fires after changes; it carries nothing.
	Wake() <-chan struct{}
	// Changes names every object that changed since the last call.
	Changes(f func(kind, namespace, name string))
	// Get returns an object, or nil. It must not be written to.
	Get(kind, namespace, name string) map[string]any
}

const (
	batch = 100 * time.Millisecond // changes come in flocks
	// look is how often every grid is planned without a change: names that
	// were taken may be free.
	look        = 30 * time.Second
	firstRetry  = time.Second
	longestWait = time.Minute
	// chunk is how many children of one grid are written to before it is
	// planned anew.
	chunk = 200
	// statusEvery is the least time between two writes of one status, and
	// statusEach what every unit adds to it.
	statusEvery = time.Second
	statusEach  = 5 * time.Millisecond
)

// Controller keeps the children of all grids. Its index has one owner, Run;
// what takes time is done by workers, one a grid.
type Controller struct {
	mirror Mirror
	api    API
	cfg    Config
	now    func() time.Time

	index *plan.Index
	grids map[plan.Ref]*work
	// own are versions of objects as our writes left them: the mirror may lag.
	own  map[plan.Ref]string
	done chan *job
	next time.Time // when to look at everything
	// slots bound the writes of all workers.
	slots chan struct{}
}

// work is what Run remembers of a grid.
type work struct {
	busy     bool      // a worker has it
	dirty    bool      // planned anew when it is not
	due      time.Time // planned anew then; zero for never
	retry    time.Duration
	after    time.Time       // what failed is not tried again before
	failing  map[string]bool // units that failed; others go on
	halted   bool            // what concerns the grid itself failed
	status   time.Time       // last write of the status
	settled  map[plan.Ref]settled
	problems map[string]bool // already told
}

// settled is a child as our last write left it: what differs from our wish
// then, differs for good.
type settled struct{ hash, print string }

// New returns a controller; Run runs it.
func New(m Mirror, api API, cfg Config) *Controller {
	return &Controller{
		mirror: m, api: api, cfg: cfg, now: time.Now, index: plan.NewIndex(), grids: map[plan.Ref]*work{},
		own: map[plan.Ref]string{}, done: make(chan *job), slots: make(chan struct{}, cfg.Parallel),
	}
}

// Run keeps children in line until ctx ends and its workers have.
func (c *Controller) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-c.mirror.Wake():
			c.gather(ctx, batch)
		case j := <-c.done:
			c.finish(j)
		case <-timer.C:
		}
		c.learn()
		timer.Reset(c.start(ctx))
	}
	for _, w := range c.grids {
		if w.busy {
			<-c.done
		}
	}
	return nil
}

// gather lets more changes come, and takes what workers bring meanwhile.
func (c *Controller) gather(ctx context.Context, d time.Duration) {
	enough := time.After(d)
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-c.done:
			c.finish(j)
		case <-enough:
			return
		}
	}
}

// learn brings the index up to the mirror, where that is not behind our own
// writes.
func (c *Controller) learn() {
	c.mirror.Changes(func(kind, namespace, name string) {
		ref := plan.Ref{Kind: kind, Namespace: namespace, Name: name}
		obj := c.mirror.Get(kind, namespace, name)
		if obj == nil {
			delete(c.own, ref)
			c.index.Delete(ref)
			return
		}
		if older(obj, c.own[ref]) {
			return
		}
		delete(c.own, ref)
		c.index.Set(obj)
	})
}

// older tells whether an object is of a version before another. Versions that
// cannot be compared are not.
func older(obj map[string]any, version string) bool {
	order, err := resourceversion.CompareResourceVersion(meta(obj).GetResourceVersion(), version)
	return err == nil && order < 0
}

// start plans what changed or is due, and hands it to workers. It returns how
// long until the next is due.
func (c *Controller) start(ctx context.Context) time.Duration {
	now := c.now()
	if !now.Before(c.next) {
		c.index.MarkAllDirty()
		c.next = now.Add(look)
	}
	for _, ref := range c.index.Dirty() {
		c.work(ref).dirty = true
	}
	wait := c.next.Sub(now)
	for ref, w := range c.grids {
		if w.busy {
			continue
		}
		if w.dirty || !w.due.IsZero() && !now.Before(w.due) {
			c.plan(ctx, ref, w, now)
		}
		if !w.busy && !w.due.IsZero() {
			wait = min(wait, w.due.Sub(now))
		}
	}
	return max(wait, time.Millisecond)
}

func (c *Controller) work(ref plan.Ref) *work {
	w := c.grids[ref]
	if w == nil {
		w = &work{settled: map[plan.Ref]settled{}, problems: map[string]bool{}, failing: map[string]bool{}}
		c.grids[ref] = w
	}
	return w
}

// plan plans one grid and starts its worker, where there is work.
func (c *Controller) plan(ctx context.Context, ref plan.Ref, w *work, now time.Time) {
	w.dirty, w.due = false, time.Time{}
	p, ok := c.index.Plan(ref, c.cfg.Guard, now)
	if !ok {
		delete(c.grids, ref)
		c.cfg.Metrics.gone(ref)
		return
	}
	c.cfg.Metrics.planned(ref, p, c.now().Sub(now))
	if p.RequeueAfter > 0 {
		w.wake(now.Add(p.RequeueAfter))
	}
	j := &job{plan: p, steps: c.pending(w, p, now)}
	if now.Before(w.after) {
		if w.wake(w.after); w.halted {
			return
		}
	}
	if j.more = len(j.steps) > chunk && !p.StatusFirst; j.more { // a wave is one job
		j.steps = j.steps[:chunk]
	}
	if c.index.StatusChanged(p) {
		ready := w.status.Add(statusEvery + time.Duration(len(p.Steps))*statusEach)
		if j.status = p.StatusFirst || !now.Before(ready); !j.status {
			w.wake(ready)
		}
	}
	c.problems(w, j)
	if j.empty() {
		return
	}
	w.busy = true
	go func() {
		c.carryOut(ctx, j)
		c.done <- j
	}()
}

// wake has the grid planned at a time, or sooner.
func (w *work) wake(at time.Time) {
	if w.due.IsZero() || at.Before(w.due) {
		w.due = at
	}
}

// pending are the steps of a plan that call for a write now.
func (c *Controller) pending(w *work, p plan.Plan, now time.Time) []plan.Step {
	var steps []plan.Step
	settled := make(map[plan.Ref]settled, len(w.settled))
	for _, s := range p.Steps {
		ref := plan.Ref{Kind: s.Kind, Namespace: p.Grid.Namespace, Name: s.Name}
		was, known := w.settled[ref]
		if known {
			settled[ref] = was
		}
		if w.failing[s.Unit] && now.Before(w.after) {
			continue
		}
		switch s.Action {
		case plan.Create, plan.Adopt, plan.Remove, plan.Release:
		case plan.Update:
			if known && was.hash == s.Hash() && was.print == s.Fingerprint {
				continue // the API server, or a webhook, would make the same of it again
			}
		case plan.Hold:
			if !s.Unmarked {
				continue
			}
		default:
			continue
		}
		steps = append(steps, s)
	}
	w.settled = settled
	return steps
}

// finish takes in what a worker did.
func (c *Controller) finish(j *job) {
	w := c.work(j.plan.Grid)
	w.busy = false
	w.dirty = w.dirty || j.more || len(j.taken) > 0
	for _, obj := range j.objects {
		ref, version := plan.RefOf(obj), meta(obj).GetResourceVersion()
		if now := c.mirror.Get(ref.Kind, ref.Namespace, ref.Name); now != nil && !older(now, version) {
			c.index.Set(now) // the mirror was faster, and does not tell of a version alone
			continue
		}
		c.own[ref] = version
		c.index.Set(obj)
	}
	for _, ref := range j.taken {
		c.index.MarkTaken(ref, j.plan.Grid)
	}
	maps.Copy(w.settled, j.settled)
	if j.wrote {
		w.status = c.now()
		c.index.CommitStatus(j.plan)
	}
	for _, ref := range j.deleted {
		c.index.MarkDeleting(ref)
	}
	c.index.Failed(j.plan.Grid, j.fates)
	for unit, f := range j.fates {
		if delete(w.failing, unit); f.Text != "" {
			w.failing[unit] = true
		}
	}
	if w.halted = j.halted; j.failed == 0 {
		w.retry = 0
		return
	}
	if len(j.units) > 0 {
		w.retry = 0 // it gets on
	}
	w.retry = min(max(firstRetry, 2*w.retry), longestWait)
	w.dirty, w.after = true, c.now().Add(w.retry)
}

// problems tells what is new, and forgets what is over.
func (c *Controller) problems(w *work, j *job) {
	now := map[string]bool{}
	for _, problem := range j.plan.Problems {
		text := problem.String()
		if now[text] = true; !w.problems[text] {
			c.cfg.Log.Warn("a grid cannot be carried out whole", "problem", text)
			j.news = append(j.news, plan.Event{Warning: true, Reason: "Refused", Message: text})
		}
	}
	w.problems = now
}
