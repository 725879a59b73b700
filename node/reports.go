package node

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
)

const (
	// askAfter is how long nodes get to make themselves heard by their pods'
	// statuses, which costs nobody a question.
	askAfter = 5 * time.Second
	// askWithin is from when to when the agents of a cluster begin to ask: first
	// questions cost the API server a quorum read each, and a cloud that was away
	// itself comes back to all agents at once. Later than that a hold would end by
	// its bound, and not because its nodes have reported.
	askWithin = 15 * time.Second
	// unitRate is how many questions a second all agents of a unit ask at most:
	// the pause of each grows with the size of the unit.
	unitRate = 200
	// askPause is the shortest pause between two questions of one agent.
	askPause = time.Second
)

// reports asks for nodes that have not reported whether they have to the
// cloud: from the loop to a goroutine of its own, and back.
type reports struct {
	mu         sync.Mutex
	unreported []string
	pause      time.Duration
	reported   []string
	epoch      int // the number of holds so far: answers are of one

	ask  chan struct{} // one slot: there are nodes to ask for
	wake chan struct{} // one slot: nodes have reported
}

func newReports() *reports {
	return &reports{ask: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
}

// begin forgets what was reported in the hold before.
func (r *reports) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch++
	r.unreported, r.reported = nil, nil
}

// want replaces the nodes that are asked for.
func (r *reports) want(unreported []string, unitSize int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unreported, r.pause = unreported, max(askPause, time.Duration(unitSize)*time.Second/unitRate)
	if len(unreported) > 0 {
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

// question is one node to ask for, and how long to wait then.
type question struct {
	node  string
	wait  time.Duration
	epoch int
}

// next is the n-th node to ask for, in turn; false where there is none.
func (r *reports) next(n int) (question, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.unreported) == 0 {
		return question{}, false
	}
	return question{r.unreported[n%len(r.unreported)], r.pause, r.epoch}, true
}

// report notes that a node has reported in the hold that was asked for.
func (r *reports) report(node string, epoch int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if epoch != r.epoch {
		return
	}
	r.reported = append(r.reported, node)
	r.unreported = slices.DeleteFunc(slices.Clone(r.unreported), func(o string) bool { return o == node })
	fill(r.wake)
}

func (r *reports) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.reported
	r.reported = nil
	return list
}

// askReports asks for nodes that have not reported, one after another, while there are any.
func (a *Agent) askReports(ctx context.Context) error {
	for begun := 0; ctx.Err() == nil; {
		select {
		case <-a.reports.ask:
			begun = a.askAll(ctx, begun)
		case <-ctx.Done():
		}
	}
	return nil
}

// askAll goes on until every node has reported. A report is one that is later than
// what was there at the first question of this hold: clocks of nodes are not
// compared. It returns the hold that it last began to ask in, which it did at a
// time of chance: once in each.
func (a *Agent) askAll(ctx context.Context, begun int) int {
	first, epoch, said := map[string]uint64{}, 0, false
	for n := 0; ; n++ {
		q, ok := a.reports.next(n)
		if !ok {
			return begun
		}
		if q.epoch != epoch {
			first, epoch = map[string]uint64{}, q.epoch
		}
		if epoch != begun {
			if begun = epoch; !run.Pause(ctx, askAfter+rand.N(askWithin)) {
				return begun
			}
			continue // some may have reported meanwhile
		}
		was := first[q.node]
		report, err := a.parts.Cluster.NodeReport(ctx, q.node, was)
		switch {
		case err != nil && !said:
			said = true
			a.log.Warn("cannot ask whether a node has reported; what is held on such nodes is held for longer", obs.KeyNode, q.node, obs.KeyErr, err)
		case err != nil:
		case was == 0:
			first[q.node] = report
		case report > was:
			a.reports.report(q.node, epoch)
		}
		if !run.Pause(ctx, jitter(q.wait)) {
			return begun
		}
	}
}
