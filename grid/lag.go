package grid

import (
	"context"
	"time"

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
	late    bool // the mirror has not shown it for a while
}

func newLag() lag {
	return lag{written: map[plan.Ref]answer{}, jobs: map[*job]bool{}}
}

// learn brings the index up to the mirror, where that is not behind our own
// writes.
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
		c.lag.written[ref] = answer{version: version}
		c.index.Set(obj)
	}
	return true
}

// confirm asks now and then for what was written and the mirror does not show,
// until ctx ends: one whose watch broke passes over what came and went meanwhile.
func (c *Controller) confirm(ctx context.Context) {
	tick := time.NewTicker(resyncEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for ref, version := range c.unseen() {
			live, err := c.api.Live(ctx, ref.Kind, ref.Namespace, ref.Name)
			if err != nil {
				c.cfg.Log.Debug("cannot ask for what was written; asked again", obs.KeyChild, ref.String(), obs.KeyErr, err)
				break
			}
			c.confirmed(ref, version, live)
		}
	}
}

// unseen are the versions of what the mirror has not shown since the last call,
// and was there then.
func (c *Controller) unseen() map[plan.Ref]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := map[plan.Ref]string{}
	for ref, a := range c.lag.written {
		now := c.mirror.Get(ref.Kind, ref.Namespace, ref.Name)
		switch {
		case now != nil && !older(now, a.version):
			delete(c.lag.written, ref)
			c.index.Set(now)
		case a.late:
			list[ref] = a.version
		default:
			c.lag.written[ref] = answer{version: a.version, late: true}
		}
	}
	c.queueDirty()
	return list
}

// confirmed brings the index up to what there is of an object (nil for none),
// unless more was learnt of it meanwhile.
func (c *Controller) confirmed(ref plan.Ref, version string, live map[string]any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lag.written[ref].version != version {
		return
	}
	if live == nil {
		delete(c.lag.written, ref)
		c.index.Delete(ref)
	} else {
		c.lag.written[ref] = answer{meta(live).GetResourceVersion(), true}
		c.index.Set(live)
	}
	c.queueDirty()
}

func (c *Controller) queueDirty() {
	for _, ref := range c.index.Dirty() {
		c.queue.Add(ref)
	}
}
