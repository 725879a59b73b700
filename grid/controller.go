package grid

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/client-go/util/workqueue"

	"github.com/gridmesh/gridmesh/grid/plan"
	"github.com/gridmesh/gridmesh/internal/obs"
)

const (
	batch = 100 * time.Millisecond // changes come in flocks
	// resyncEvery is how often every grid is planned without a change: names
	// that were taken may be free.
	resyncEvery = 30 * time.Second
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

// Controller keeps the children of all grids: Run follows the mirror and
// queues the grids that a change concerns, workers plan and write.
type Controller struct {
	mirror Mirror
	api    API
	cfg    Config
	now    func() time.Time
	// queue has one worker a grid. It limits no rates: what fails is a unit, of
	// which a grid has many, and each has a retry of its own.
	queue workqueue.TypedDelayingInterface[plan.Ref]
	// slots bound the writes of all workers to children and revisions (enter).
	slots *semaphore.Weighted
	// shares are what of that, and of the workers, one namespace has.
	shares *shares

	mu    sync.Mutex // guards the following; no write to the API server is under it
	index *plan.Index
	grids map[plan.Ref]*work
	lag   lag

	// looked is when an orphan was noticed, or looked at last: collect's alone; its deletions have mu.
	looked map[orphan]time.Time
}

// work is what is remembered of a grid. The worker that has the grid owns it.
type work struct {
	failing  map[attempt]retry // what failed; others go on
	disputes map[subject]dispute
	own      retry           // of what concerns the grid itself
	spec     int64           // the generation that they are of
	status   time.Time       // last write of the status
	version  string          // of the grid, as the mirror showed it before that write
	problems map[string]bool // already recorded
}

// retry is when what failed is tried again; the zero retry is now.
type retry struct {
	wait  time.Duration
	after time.Time
}

// next is the retry after another failure.
func (r retry) next(now time.Time) retry {
	wait := min(max(2*r.wait, firstRetry), longestWait)
	return retry{wait, now.Add(wait)}
}

// New returns a controller; Run runs it.
func New(m Mirror, api API, cfg Config) *Controller {
	return &Controller{
		mirror: m, api: api, cfg: cfg, now: time.Now, index: plan.NewIndex(), grids: map[plan.Ref]*work{},
		lag: newLag(), slots: semaphore.NewWeighted(int64(cfg.Parallel)), shares: newShares(cfg.Parallel),
	}
}

// Run keeps children in line until ctx ends and its workers have. It is called
// once.
func (c *Controller) Run(ctx context.Context) error {
	c.queue = workqueue.NewTypedDelayingQueue[plan.Ref]()
	c.cfg.Guard.Since = c.now()
	var wg sync.WaitGroup
	for range c.cfg.Parallel {
		wg.Go(func() {
			for c.next(ctx) {
			}
		})
	}
	wg.Go(func() { confirm(ctx, c.ask) })
	wg.Go(func() { confirm(ctx, c.collect) })
	c.follow(ctx)
	c.queue.ShutDown()
	wg.Wait()
	return nil
}

// follow queues what changes concern, and now and then everything, until ctx
// ends.
func (c *Controller) follow(ctx context.Context) {
	resync := time.NewTicker(resyncEvery)
	defer resync.Stop()
	c.sync(true)
	for {
		select {
		case <-ctx.Done():
			return
		case <-resync.C:
			c.sync(true)
		case <-c.mirror.Wake():
			select {
			case <-ctx.Done():
				return
			case <-time.After(batch):
				c.sync(false)
			}
		}
	}
}

// sync brings the index up to the mirror, and queues the grids whose plan may
// be another, or all.
func (c *Controller) sync(all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.learn()
	if all {
		c.index.MarkAllDirty()
	}
	c.queueDirty()
}

// next plans one grid and carries the plan out; false when there will be none.
func (c *Controller) next(ctx context.Context) bool {
	ref, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(ref)
	if ctx.Err() != nil || !c.shares.take(ref) {
		return true
	}
	defer func() {
		if next, ok := c.shares.leave(ref.Namespace); ok {
			c.queue.Add(next)
		}
	}()
	w, j := c.plan(ref)
	if j != nil {
		c.begin(j)
		c.carryOut(ctx, j)
		c.finish(w, j)
	}
	return true
}

// plan plans one grid; the job is nil where there is nothing to do now.
func (c *Controller) plan(ref plan.Ref) (*work, *job) {
	c.mu.Lock()
	c.learn()
	w := c.grids[ref]
	if w == nil {
		w = &work{problems: map[string]bool{}, failing: map[attempt]retry{}, disputes: map[subject]dispute{}}
		c.grids[ref] = w
	}
	now := c.now()
	c.index.Disputed(ref, w.disputed(now))
	c.index.Waiting(ref, w.waiting(now))
	p, ok := c.index.Plan(ref, c.cfg.Guard, now)
	if !ok {
		delete(c.grids, ref)
	}
	statusChanged := ok && (c.index.StatusChanged(p) || c.statusLost(w, p, now))
	for _, dirty := range c.index.Dirty() {
		if dirty != ref {
			c.queue.Add(dirty)
		}
	}
	c.mu.Unlock()
	if !ok {
		c.cfg.Metrics.gone(ref)
		return w, nil
	}
	c.cfg.Metrics.planned(ref, p, c.now().Sub(now))
	if p.RequeueAfter > 0 {
		c.queue.AddAfter(ref, p.RequeueAfter)
	}
	return w, c.prepare(w, p, statusChanged, now)
}

// statusLost reports whether a status that was written long enough ago for the
// mirror to show it is another there. A mirror that shows what it did before that write
// says nothing of it: it is behind, or the API server does not keep all of a status.
func (c *Controller) statusLost(w *work, p plan.Plan, now time.Time) bool {
	if now.Sub(w.status) < shown {
		return false
	}
	grid := c.mirror.Get(p.Grid.Kind, p.Grid.Namespace, p.Grid.Name)
	return grid != nil && meta(grid).GetResourceVersion() != w.version && p.StatusLost(grid)
}

// prepare makes a plan's job, or nil where nothing is to be done now.
func (c *Controller) prepare(w *work, p plan.Plan, statusChanged bool, now time.Time) *job {
	if w.spec != p.Generation { // who has mended it does not wait for what failed before
		w.spec, w.own = p.Generation, retry{}
		clear(w.failing)
	}
	if now.Before(w.own.after) {
		c.queue.AddAfter(p.Grid, w.own.after.Sub(now))
		return nil
	}
	steps, next := w.pending(p, now)
	if next > 0 {
		c.queue.AddAfter(p.Grid, next)
	}
	j := &job{plan: p, steps: steps}
	j.answers = w.answers(j.steps)
	if j.more = len(j.steps) > chunk && !p.StatusFirst; j.more { // a wave is one job
		j.steps = j.steps[:chunk]
	}
	if statusChanged {
		ready := w.status.Add(statusEvery + time.Duration(len(p.Steps))*statusEach)
		if j.status = p.StatusFirst || !now.Before(ready); !j.status {
			c.queue.AddAfter(p.Grid, ready.Sub(now))
		}
		j.version = meta(c.mirror.Get(p.Grid.Kind, p.Grid.Namespace, p.Grid.Name)).GetResourceVersion()
	}
	c.newProblems(w, j)
	if j.empty() {
		return nil
	}
	return j
}

// pending are the steps of a plan that call for a write now, and in how long
// the next one that has to wait is due; 0 for never.
func (w *work) pending(p plan.Plan, now time.Time) (steps []plan.Step, next time.Duration) {
	failing := make(map[attempt]retry, len(w.failing))
	for _, s := range p.Steps {
		if !s.Writes() {
			continue
		}
		r, failed := w.failing[attemptOf(s)]
		if failed {
			failing[attemptOf(s)] = r
		}
		if left := w.wait(s, now); left > 0 {
			if next == 0 || left < next {
				next = left
			}
			continue
		}
		steps = append(steps, s)
	}
	w.failing = failing // of what is no longer to be written, none
	return steps, next
}

// finish takes in what a job did, and queues what follows from it.
func (c *Controller) finish(w *work, j *job) {
	ref := j.plan.Grid
	again := c.absorb(j)
	if j.wrote {
		w.status, w.version = c.now(), j.version
	}
	now := c.now()
	for _, s := range j.steps {
		switch f, tried := j.outcomes[s.Key()]; {
		case !tried:
		case f.Text == "":
			delete(w.failing, attemptOf(s))
			w.succeeded(s, now)
		default:
			w.failing[attemptOf(s)] = w.failing[attemptOf(s)].next(now)
		}
	}
	switch {
	case j.ownFailed:
		w.own = w.own.next(now)
	case j.wroteOwn:
		w.own = retry{}
	}
	if again || j.more || j.failed > 0 || len(j.taken) > 0 {
		c.queue.Add(ref) // others go on; what failed waits
	}
}

// newProblems records what is new, and forgets what is over.
func (c *Controller) newProblems(w *work, j *job) {
	now := map[string]bool{}
	for _, problem := range j.plan.Problems {
		text := problem.String()
		if now[text] = true; !w.problems[text] {
			c.cfg.Log.Warn("a grid cannot be carried out whole", obs.KeyProblem, text)
			j.events = append(j.events, plan.Event{Warning: true, Reason: "Refused", Message: text})
		}
	}
	for _, note := range j.plan.Notes {
		if now[note.Message] = true; !w.problems[note.Message] {
			c.cfg.Log.Warn("what is beside a grid, or waits", obs.KeyGrid, j.plan.Grid.String(), obs.KeyProblem, note.Message)
			j.events = append(j.events, note)
		}
	}
	w.problems = now
}
