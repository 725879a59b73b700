package cloud

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/quiet"
)

// patience is for one errand, and for a write of the list: what takes longer is tried again.
const patience = 30 * time.Second

// parallel is for how many nodes errands are run at once, as the controller manager does.
const parallel = 8

// errands are what is done for nodes beside the loop, which waits for none of them: one at a
// time for each node, and a few at once. Who finds no room comes first at the next look, so
// that nodes for which it takes long keep the others waiting for a turn alone. The loop owns
// them, but for what ended.
type errands struct {
	what        string        // in the log
	rest, again time.Duration // before the same is done once more, and after it failed
	log         *slog.Logger
	work        *sync.WaitGroup

	of      map[string]*errand // by node
	busy    int
	first   string // who found no room; "" where all did
	failing quiet.Line

	mu    sync.Mutex
	ended []ended
}

// errand is the last of a node.
type errand struct {
	kind  string
	busy  bool
	done  bool      // and did not fail
	until time.Time // before which the same is not begun again
}

// did reports whether the last errand of a node was of a kind, and is done.
func (e *errands) did(node, kind string) bool {
	last := e.of[node]
	return last != nil && last.kind == kind && last.done
}

// ended is an errand that came to its end.
type ended struct {
	node string
	err  error
	then func()
}

func newErrands(what string, rest, again time.Duration, log *slog.Logger, work *sync.WaitGroup) *errands {
	return &errands{what: what, rest: rest, again: again, log: log, work: work, of: map[string]*errand{}}
}

// begin begins an errand of a kind, unless one is under way for that node, the same was done
// just now, or there is no room. Of one that is done, then is called by collect.
func (e *errands) begin(ctx context.Context, now time.Time, node, kind string, do func(ctx context.Context) error, then func()) {
	last := e.of[node]
	if last != nil && (last.busy || last.kind == kind && now.Before(last.until)) {
		return
	}
	if e.busy >= parallel {
		if e.first == "" {
			e.first = node
		}
		return
	}
	e.busy++
	e.of[node] = &errand{kind: kind, busy: true}
	e.work.Go(func() {
		within, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		err := do(within)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.ended = append(e.ended, ended{node, err, then})
	})
}

// collect takes what came of errands.
func (e *errands) collect(ctx context.Context, now time.Time) {
	e.mu.Lock()
	list := e.ended
	e.ended = nil
	e.mu.Unlock()
	for _, d := range list {
		e.busy--
		last := e.of[d.node]
		last.busy, last.done, last.until = false, d.err == nil, now.Add(e.rest)
		if d.err == nil {
			d.then()
			continue
		}
		last.until = now.Add(e.again)
		if ctx.Err() == nil {
			e.failing.Say(e.log.Warn, "something was not done for a node; it is tried again", obs.KeyAction, e.what, obs.KeyNode, d.node, obs.KeyErr, d.err)
		}
	}
}

// turns are nodes in the order in which it is their turn, of which a sorted list is given.
func (e *errands) turns(names []string) []string {
	at, _ := slices.BinarySearch(names, e.first)
	e.first = ""
	return slices.Concat(names[at:], names[:at])
}

// forget forgets nodes that are gone.
func (e *errands) forget(gone func(node string) bool) {
	for node, last := range e.of {
		if !last.busy && gone(node) {
			delete(e.of, node)
		}
	}
}
