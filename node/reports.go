package node

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gridmesh/gridmesh/internal/obs"
)

const (
	// askAfter is how long nodes get to make themselves heard by their pods'
	// statuses, which costs nobody a question.
	askAfter = 5 * time.Second
	// unitRate is how many questions a second all agents of a unit ask at most:
	// the pause of each grows with the size of the unit.
	unitRate = 200
	// askPause is the shortest pause between two questions of one agent.
	askPause = time.Second
)

// reports asks for nodes that were silent whether they have reported to the
// cloud: from the loop to a goroutine of its own, and back.
type reports struct {
	mu     sync.Mutex
	silent []string
	pause  time.Duration
	heard  []string

	ask  chan struct{} // one slot: there are silent nodes
	wake chan struct{} // one slot: nodes were heard
}

func newReports() *reports {
	return &reports{ask: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
}

// want replaces the nodes that are asked for.
func (r *reports) want(silent []string, unitSize int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.silent, r.pause = silent, max(askPause, time.Duration(unitSize)*time.Second/unitRate)
	if len(silent) > 0 {
		fill(r.ask)
	}
}

// fill wakes who waits for a one-slot channel.
func fill(slot chan struct{}) {
	select {
	case slot <- struct{}{}:
	default:
	}
}

// next is the n-th node to ask for, in turn; false where there is none.
func (r *reports) next(n int) (node string, wait time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.silent) == 0 {
		return "", 0, false
	}
	return r.silent[n%len(r.silent)], r.pause, true
}

func (r *reports) hear(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = append(r.heard, node)
	r.silent = slices.DeleteFunc(slices.Clone(r.silent), func(o string) bool { return o == node })
	fill(r.wake)
}

func (r *reports) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.heard
	r.heard = nil
	return list
}

// askReports asks for silent nodes, one after another, while there are any.
func (a *Agent) askReports(ctx context.Context) error {
	for {
		select {
		case <-a.reports.ask:
		case <-ctx.Done():
			return nil
		}
		if !pause(ctx, jitter(askAfter)) {
			return nil
		}
		a.askAll(ctx)
	}
}

// askAll goes on until no node is silent. A report is one that differs from
// what was there at the first question: clocks of nodes are not compared.
func (a *Agent) askAll(ctx context.Context) {
	first, said := map[string]string{}, false
	for n := 0; ; n++ {
		node, wait, ok := a.reports.next(n)
		if !ok {
			return
		}
		report, err := a.parts.Cluster.NodeReport(ctx, node)
		was, had := first[node]
		switch {
		case err != nil && !said:
			said = true
			a.log.Warn("cannot ask whether a node has reported; what is held on such nodes is held for longer", obs.KeyNode, node, obs.KeyErr, err)
		case err != nil:
		case !had:
			first[node] = report
		case was != report:
			a.reports.hear(node)
		}
		if !pause(ctx, jitter(wait)) {
			return
		}
	}
}
