package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/sandbox"
	"github.com/gridmesh/gridmesh/test/conformance/score"
)

// hopeless is how many specs in a row may be left without a judgement before
// the rest is not begun: then it is the cluster that is broken.
const hopeless = 5

// player runs specs beside each other, as many as it has workers, and then
// those that must be alone.
type player struct {
	workers int
	until   time.Time // when none begins any more
	now     func() time.Time
	// runs a spec, and keeps what it came to.
	run func(ctx context.Context, worker int, spec string) (score.Outcome, error)
	add func(score.Outcome) error
	say func(format string, args ...any)
}

// play returns when each spec has come to something, one way or another.
func (p *player) play(ctx context.Context, specs []string) error {
	var beside, serial []string
	for _, spec := range specs {
		if alone(spec) {
			serial = append(serial, spec)
		} else {
			beside = append(beside, spec)
		}
	}
	q := &queue{total: len(specs)}
	for _, part := range []struct {
		specs   []string
		workers int
	}{{beside, p.workers}, {serial, 1}} {
		q.specs = part.specs
		errs := make([]error, part.workers)
		var all sync.WaitGroup
		for i := range part.workers {
			all.Go(func() { errs[i] = p.work(ctx, q, i) })
		}
		all.Wait()
		if err := errors.Join(append(errs, ctx.Err())...); err != nil {
			return err
		}
	}
	return nil
}

// work runs specs of the queue until there is none.
func (p *player) work(ctx context.Context, q *queue, worker int) error {
	for ctx.Err() == nil {
		spec, there := q.next()
		if !there {
			return nil
		}
		var o score.Outcome
		switch {
		case q.broken():
			o = score.Outcome{Spec: spec, State: score.Absent, Why: fmt.Sprintf("not begun: the last %d before it were not judged", hopeless)}
		case p.now().After(p.until):
			o = score.Outcome{Spec: spec, State: score.Absent, Why: "not begun: the time of the run was over"}
		default:
			var err error
			if o, err = p.run(ctx, worker, spec); err != nil {
				return err
			}
			n := q.ended(o.State)
			p.say("%d of %d: %s after %.0f s: %s", n, q.total, o.State, o.Seconds, spec)
		}
		if err := p.add(o); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// queue is what is left to run.
type queue struct {
	mu       sync.Mutex
	specs    []string
	total, n int
	unjudged int // in a row
}

func (q *queue) next() (spec string, there bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.specs) == 0 {
		return "", false
	}
	spec, q.specs = q.specs[0], q.specs[1:]
	return spec, true
}

// ended counts what was run, and how much in a row was not judged.
func (q *queue) ended(state score.State) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.n++
	q.unjudged++
	if state != score.Absent {
		q.unjudged = 0
	}
	return q.n
}

func (q *queue) broken() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.unjudged >= hopeless
}

// home is a directory of a worker's own: kubectl keeps what it learned there.
func home(worker int) string { return filepath.Join(sandbox.Dir, fmt.Sprintf("home-%d", worker)) }
