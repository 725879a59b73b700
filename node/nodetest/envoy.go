package nodetest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gridmesh/gridmesh/xds/admin"
)

// Envoy is a twin of the local Envoy's admin socket: it says what a test sets.
type Envoy struct {
	mu       sync.Mutex
	clusters []admin.Cluster
	overload admin.Overload
	err      error
	latency  time.Duration
	asked    int
}

// Say sets the clusters of the next answers.
func (e *Envoy) Say(list ...admin.Cluster) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.clusters, e.err = list, nil
}

// Load sets how loaded it is.
func (e *Envoy) Load(o admin.Overload) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.overload = o
}

// Overload implements envoy.Admin.
func (e *Envoy) Overload(context.Context) (admin.Overload, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.overload, e.err
}

// Fail lets it give no answer but an error.
func (e *Envoy) Fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
}

// Slow is how long it takes from now on.
func (e *Envoy) Slow(latency time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.latency = latency
}

// Asked is how often it was asked.
func (e *Envoy) Asked() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked
}

// Clusters implements envoy.Admin.
func (e *Envoy) Clusters(ctx context.Context) ([]admin.Cluster, error) {
	e.mu.Lock()
	e.asked++
	latency := e.latency
	e.mu.Unlock()
	select {
	case <-time.After(latency):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.clusters), e.err
}
