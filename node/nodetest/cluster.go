package nodetest

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/gridmesh/gridmesh/internal/latest"
	"github.com/gridmesh/gridmesh/topology"
)

// Source is a source that a test feeds by Publish.
type Source struct {
	latest.Value[*topology.Snapshot]
}

// Run implements node.Source.
func (s *Source) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// API is a twin of the API server, as a node asks it.
type API struct {
	Journal *Journal
	Latency time.Duration  // of every answer
	Pods    []netip.Prefix // of the node
	Policy  bool           // there is a NetworkPolicy
	Away    error          // not nil: it does not answer, and this is why

	mu     sync.Mutex
	events []string
}

// PodCIDRs implements node.Cluster.
func (a *API) PodCIDRs(ctx context.Context, _ string) ([]netip.Prefix, error) {
	return a.Pods, a.ask(ctx, "ask pod CIDRs")
}

// HasNetworkPolicy implements node.Cluster.
func (a *API) HasNetworkPolicy(ctx context.Context) (bool, error) {
	return a.Policy, a.ask(ctx, "ask policies")
}

func (a *API) ask(ctx context.Context, what string) error {
	a.Journal.add(what)
	select {
	case <-time.After(a.Latency):
		return a.Away
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run implements node.Events.
func (a *API) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Warn implements node.Events.
func (a *API) Warn(reason, message string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, reason+": "+message)
}

// WarnNow implements node.Events.
func (a *API) WarnNow(_ context.Context, reason, message string) { a.Warn(reason, message) }

// Events returns what was written so far, "reason: message".
func (a *API) Events() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.events)
}
