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
	listed   int
	old      bool
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

// Old makes it one whose bootstrap is of before it counted by cluster.
func (e *Envoy) Old() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.old = true
}

// Stats implements envoy.Admin: the sums of what Clusters says.
func (e *Envoy) Stats(ctx context.Context) (admin.Stats, error) {
	list, err := e.answer(ctx, &e.asked)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil || e.old {
		return admin.Stats{Overload: e.overload}, err
	}
	s := admin.Stats{Overload: e.overload, Counted: true}
	for _, c := range list {
		sum := admin.Use{Cluster: c.Name}
		for _, u := range admin.Uses([]admin.Cluster{c}) {
			sum.Connections += u.Connections
			sum.Failed += u.Failed
			sum.Active += u.Active
			sum.Ejected += u.Ejected
		}
		if sum != (admin.Use{Cluster: c.Name}) {
			s.Uses = append(s.Uses, sum)
		}
	}
	return s, nil
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

// Listed is how often it was asked for all that it holds.
func (e *Envoy) Listed() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.listed
}

// Clusters implements envoy.Admin.
func (e *Envoy) Clusters(ctx context.Context) ([]admin.Cluster, error) {
	return e.answer(ctx, &e.listed)
}

// answer counts a question, and answers when it is time.
func (e *Envoy) answer(ctx context.Context, questions *int) ([]admin.Cluster, error) {
	e.mu.Lock()
	*questions++
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
