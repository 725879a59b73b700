package grid

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/gridmesh/gridmesh/grid/plan"
)

// shares leave a namespace a part of the workers and of the places for writes: writes may
// hang there for half a minute each, as a webhook of its own can have them, and others' grids
// are not to wait for that.
type shares struct {
	each int // workers, and places
	// large is for who wants more places than there are: one at a time, whosever it is.
	large *semaphore.Weighted

	mu sync.Mutex
	of map[string]*share // of namespaces with work
}

// share is one namespace's.
type share struct {
	places *semaphore.Weighted
	users  int        // who has it in hand
	busy   int        // workers
	parked []plan.Ref // grids that wait for one
}

// newShares divides so many workers.
func newShares(parallel int) *shares {
	return &shares{each: max(1, parallel/4), large: semaphore.NewWeighted(1), of: map[string]*share{}}
}

// take reports whether a worker may take a grid up now; else it is given back by leave.
func (s *shares) take(grid plan.Ref) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.hold(grid.Namespace)
	if sh.busy < s.each {
		sh.busy++
		return true
	}
	if sh.users--; !slices.Contains(sh.parked, grid) {
		sh.parked = append(sh.parked, grid)
	}
	return false
}

// leave ends what take began; next is the grid whose turn it is now.
func (s *shares) leave(namespace string) (next plan.Ref, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.of[namespace]
	if sh.busy--; len(sh.parked) > 0 {
		next, ok = sh.parked[0], true
		sh.parked = sh.parked[1:]
	}
	s.release(namespace)
	return next, ok
}

// enter waits for so many of a namespace's places; leave gives them back. Who wants more
// than there are has all, and then waits for its turn: so no namespace has two in that
// queue, and where others wait the next turn is theirs.
func (s *shares) enter(ctx context.Context, namespace string, n int) (leave func(), err error) {
	places := int64(min(n, s.each))
	s.mu.Lock()
	sh := s.hold(namespace)
	s.mu.Unlock()
	done := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.release(namespace)
	}
	if err := sh.places.Acquire(ctx, places); err != nil {
		done()
		return nil, err
	}
	out := func() { sh.places.Release(places); done() }
	if n <= s.each {
		return out, nil
	}
	if err := s.large.Acquire(ctx, 1); err != nil {
		out()
		return nil, err
	}
	return func() { s.large.Release(1); out() }, nil
}

// hold is a namespace's share, and release its end.
func (s *shares) hold(namespace string) *share {
	sh := s.of[namespace]
	if sh == nil {
		sh = &share{places: semaphore.NewWeighted(int64(s.each))}
		s.of[namespace] = sh
	}
	sh.users++
	return sh
}

func (s *shares) release(namespace string) {
	sh := s.of[namespace]
	if sh.users--; sh.users == 0 && len(sh.parked) == 0 {
		delete(s.of, namespace)
	}
}
