package grid

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gridmesh/gridmesh/internal/obs"
)

// What a start waits for. There may be more to it where it lasts.
var (
	ErrNotServed = errors.New("the CustomResourceDefinitions of grids are not served yet")
	ErrNotKnown  = errors.New("not all that grids depend on is known yet")
)

const (
	doubtsLook  = time.Second
	doubtsAfter = 10 * time.Second // a start takes a moment
	doubtsAgain = time.Minute

	reachTimeout = 5 * time.Second
)

// Doubts are why a replica may be unable to do its work, by what they are
// about. A controller that waits in silence looks like one with nothing to do.
// The zero Doubts are none.
type Doubts struct {
	// Blame says of failed requests whom they were sent to, and what to check; nil
	// for nobody. Reach asks the API server where nothing has failed so far.
	Blame func(error) error
	Reach func(context.Context) error

	mu    sync.Mutex
	list  map[string]error
	asked func() error // nil for nobody
}

// Set notes a doubt, or that there is none.
func (d *Doubts) Set(about string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.list == nil {
		d.list = map[string]error{}
	}
	if d.list[about] = err; err == nil {
		delete(d.list, about)
	}
}

// Ask has another asked for doubts whenever they are looked at.
func (d *Doubts) Ask(who func() error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = who
}

// Clear ends all doubts of one who leads no longer.
func (d *Doubts) Clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list, d.asked = nil, nil
}

// Now are the doubts there are, or nil.
func (d *Doubts) Now() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, about := range slices.Sorted(maps.Keys(d.list)) {
		errs = append(errs, fmt.Errorf("%s: %w", about, d.list[about]))
	}
	if d.asked != nil {
		errs = append(errs, d.asked())
	}
	return errors.Join(errs...)
}

// Tell logs doubts that stay, until ctx ends.
func (d *Doubts) Tell(ctx context.Context, log *slog.Logger) error {
	tick := time.NewTicker(doubtsLook)
	defer tick.Stop()
	var since, told time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		switch err, now := d.Now(), time.Now(); {
		case err == nil && !told.IsZero():
			log.Info("nothing is in the way of grids any more")
			fallthrough
		case err == nil:
			since, told = time.Time{}, time.Time{}
		case since.IsZero():
			since = now
		case now.Sub(since) >= doubtsAfter && now.Sub(told) >= doubtsAgain:
			told = now
			log.Error("something is in the way of grids", obs.KeyErr, d.explain(ctx, err))
		}
	}
}

// explain adds the cure: of what failed, where anything did.
func (d *Doubts) explain(ctx context.Context, err error) error {
	switch {
	case !waits(err) && d.Blame != nil:
		return d.Blame(err)
	case !waits(err) || d.Reach == nil:
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	if silent := d.Reach(ctx); silent != nil {
		return fmt.Errorf("%w; %w", err, silent)
	}
	return fmt.Errorf("%w; the API server answers, and is slow to serve them: see its log, and kubectl get crd", err)
}

// waits reports whether nothing but the API server's answer is missing.
func waits(err error) bool {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(all.Unwrap(), func(err error) bool { return !waits(err) })
	}
	return errors.Is(err, ErrNotServed) || errors.Is(err, ErrNotKnown)
}
