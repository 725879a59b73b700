package grid

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/gridmesh/gridmesh/api/names"
	"github.com/gridmesh/gridmesh/grid/plan"
	"github.com/gridmesh/gridmesh/internal/obs"
)

// lag is what our writes led to, and the mirror, which may be behind, has not
// shown yet.
type lag struct {
	written map[plan.Ref]answer
	jobs    map[*job]bool // that run
}

// answer is an object as a write left it.
type answer struct {
	version string
	at      time.Time // written, or asked for last
}

// shown is how long the mirror may take to show a write before it is asked for,
// and confirmMost is for how many at a time: the writes share the rate.
const (
	shown       = resyncEvery
	confirmMost = chunk
)

func newLag() lag {
	return lag{written: map[plan.Ref]answer{}, jobs: map[*job]bool{}}
}

// learn brings the index up to the mirror, where that is not behind our own
// writes. What it tells as deleted may have been made again since: that is taken for
// gone until the next write to it finds it.
func (c *Controller) learn() {
	c.mirror.Changes(func(kind, namespace, name string) {
		ref := plan.Ref{Kind: kind, Namespace: namespace, Name: name}
		obj := c.mirror.Get(kind, namespace, name)
		if obj == nil {
			for j := range c.lag.jobs {
				j.gone[ref] = true
			}
			delete(c.lag.written, ref)
			c.index.Delete(ref)
			return
		}
		if older(obj, c.lag.written[ref].version) {
			return
		}
		delete(c.lag.written, ref)
		c.index.Set(obj)
	})
}

// begin has a job know what is deleted while it runs.
func (c *Controller) begin(j *job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	j.gone = map[plan.Ref]bool{}
	c.lag.jobs[j] = true
}

// absorb brings the index up to what a job wrote, and queues the other grids
// that it concerns. It reports whether it concerns the job's own.
func (c *Controller) absorb(j *job) (again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.lag.jobs, j)
	for _, obj := range j.objects {
		again = !c.take(j, obj) || again
	}
	for _, ref := range j.taken {
		c.index.MarkTaken(ref, j.plan.Grid)
	}
	if j.wrote {
		c.index.CommitStatus(j.plan)
	}
	for ref, version := range j.deleted {
		c.index.MarkDeleting(ref, version)
	}
	c.index.Failed(j.plan.Grid, j.outcomes)
	for _, ref := range c.index.Dirty() {
		if ref == j.plan.Grid {
			again = true
			continue
		}
		c.queue.Add(ref)
	}
	return again
}

// take brings the index up to one object that a job wrote; false where that says
// nothing, for the mirror saw it deleted while the job ran. Where it was made
// after that the mirror is going to show it, or its name is asked for.
func (c *Controller) take(j *job, obj map[string]any) bool {
	ref, version := plan.RefOf(obj), meta(obj).GetResourceVersion()
	now := c.mirror.Get(ref.Kind, ref.Namespace, ref.Name)
	switch {
	case now != nil && !older(now, version):
		c.index.Set(now) // the mirror was faster, and does not tell of a version alone
	case now == nil && j.gone[ref]:
		return false
	default:
		c.lag.written[ref] = answer{version, c.now()}
		c.index.Set(obj)
	}
	return true
}

// confirm looks now and then, until ctx ends, at what a watch that broke passed over:
// ask at what our mirror did, and collect at what Kubernetes' garbage collector did.
func confirm(ctx context.Context, look func(context.Context)) {
	tick := time.NewTicker(resyncEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		look(ctx)
	}
}

// ask asks for what was written and the mirror does not show, the longest unseen
// first; of a kind that cannot be asked for the rest waits, and no other kind does.
func (c *Controller) ask(ctx context.Context) {
	failed := map[string]bool{}
	asked := 0
	for _, u := range c.unseen() {
		if failed[u.Kind] {
			continue
		}
		if asked == confirmMost || ctx.Err() != nil {
			return
		}
		asked++
		live, err := c.api.Live(ctx, u.Kind, u.Namespace, u.Name)
		if err != nil {
			failed[u.Kind] = true
			c.cfg.Log.Debug("cannot ask for what was written; asked again", obs.KeyChild, u.String(), obs.KeyErr, err)
		}
		c.confirmed(u, live, err)
	}
}

// unseen is a version that was written and is not shown.
type unseen struct {
	plan.Ref
	answer
}

// unseen are those that the mirror has not shown for a while, the longest unasked
// first.
func (c *Controller) unseen() (list []unseen) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ref, a := range c.lag.written {
		now := c.mirror.Get(ref.Kind, ref.Namespace, ref.Name)
		switch {
		case now != nil && !older(now, a.version):
			delete(c.lag.written, ref)
			c.index.Set(now)
		case c.now().Sub(a.at) >= shown:
			list = append(list, unseen{ref, a})
		}
	}
	c.queueDirty()
	slices.SortFunc(list, func(a, b unseen) int {
		return cmp.Or(a.at.Compare(b.at), strings.Compare(a.String(), b.String()))
	})
	return list
}

// confirmed brings the index up to what there is of an object (nil for none),
// unless more was learnt of it meanwhile. One without the label of children is none
// that the mirror will ever show: it is gone, as it is for the mirror.
func (c *Controller) confirmed(u unseen, live map[string]any, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lag.written[u.Ref].version != u.version {
		return
	}
	switch _, labelled := meta(live).GetLabels()[names.GridSelector]; {
	case err != nil:
		c.lag.written[u.Ref] = answer{u.version, c.now()}
	case live == nil || !labelled:
		delete(c.lag.written, u.Ref)
		c.index.Delete(u.Ref)
	default:
		c.lag.written[u.Ref] = answer{meta(live).GetResourceVersion(), c.now()}
		c.index.Set(live)
	}
	c.queueDirty()
}

func (c *Controller) queueDirty() {
	for _, ref := range c.index.Dirty() {
		c.queue.Add(ref)
	}
}
