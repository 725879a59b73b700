package nodetest

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/gridmesh/gridmesh/convert"
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

// API is a twin of the API server, as a node asks it. What a test sets after
// the agent's start it sets in Set.
type API struct {
	Journal *Journal
	Latency time.Duration      // of every answer
	Pods    []netip.Prefix     // of the node
	IPs     []netip.Addr       // of the node
	At      []netip.Addr       // from where it answered
	Policy  bool               // there is a NetworkPolicy
	Away    error              // not nil: it does not answer, and this is why
	Deaf    error              // not nil: it keeps no watch of policies, and this is why
	Secret  error              // not nil: it tells of no policies, and this is why
	Leaving latest.Value[bool] // the Node is about to go; nothing is told before the first
	Mute    []string           // watches that were not heard
	Open    []string           // watches that are open and say nothing
	Behind  uint64             // of every other answer from memory: so many reports are not in it

	mu      sync.Mutex
	events  []string
	renewed map[string]uint64 // by node
	asked   map[string]int    // for reports, by node
	named   int               // NetworkPolicies so far
	edited  chan struct{}     // closed by the next Set
}

// Set changes the twin.
func (a *API) Set(edit func(a *API)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	edit(a)
	if a.edited != nil {
		close(a.edited)
		a.edited = nil
	}
}

// Renew lets a node report.
func (a *API) Renew(node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.renewed == nil {
		a.renewed = map[string]uint64{}
	}
	a.renewed[node]++
}

// Asked is how often a node's report was asked for.
func (a *API) Asked(node string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked[node]
}

// Unheard implements node.Cluster.
func (a *API) Unheard(time.Time) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.Mute)
}

// Silent implements node.Cluster.
func (a *API) Silent() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.Open)
}

// OwnNode implements node.Cluster.
func (a *API) OwnNode(ctx context.Context, _ string) (convert.OwnNode, error) {
	a.Journal.add("ask own Node")
	if err := a.answer(ctx); err != nil {
		return convert.OwnNode{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return convert.OwnNode{PodCIDRs: slices.Clone(a.Pods), IPs: slices.Clone(a.IPs)}, nil
}

// FollowLeaving implements node.Cluster.
func (a *API) FollowLeaving(ctx context.Context, _ string, tell func(leaving bool)) error {
	wake := a.Leaving.Wake()
	defer a.Leaving.Forget(wake)
	for {
		if leaving, ok := a.Leaving.Get(); ok {
			tell(leaving)
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// NetworkPolicy implements node.Cluster. Whoever asks hears of another one each time.
func (a *API) NetworkPolicy(ctx context.Context) (name, version string, err error) {
	a.Journal.add("ask policies")
	if err := a.answer(ctx); err != nil {
		return "", "", err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.Secret != nil {
		return "", "", a.Secret
	}
	return a.aPolicy(), "", nil
}

func (a *API) aPolicy() string {
	if !a.Policy {
		return ""
	}
	a.named++
	return fmt.Sprintf("shop/closed-%d", a.named)
}

// AwaitNetworkPolicy implements node.Cluster.
func (a *API) AwaitNetworkPolicy(ctx context.Context, _ string, most time.Duration) (string, error) {
	over := time.After(most)
	for {
		if err := a.answer(ctx); err != nil {
			return "", err
		}
		a.mu.Lock()
		if a.edited == nil {
			a.edited = make(chan struct{})
		}
		name, deaf, edited := a.aPolicy(), a.Deaf, a.edited
		a.mu.Unlock()
		if name != "" || deaf != nil {
			return name, deaf
		}
		select {
		case <-edited:
		case <-over:
			return "", nil
		case <-ctx.Done():
			return "", nil
		}
	}
}

// Reachable implements node.Cluster.
func (a *API) Reachable(ctx context.Context) error { return a.answer(ctx) }

// Servers implements node.Cluster: those of At answer all the time.
func (a *API) Servers() []netip.Addr {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.At)
}

// NodeReport implements node.Cluster.
func (a *API) NodeReport(ctx context.Context, node string, first uint64) (uint64, error) {
	if err := a.answer(ctx); err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked == nil {
		a.asked = map[string]int{}
	}
	a.asked[node]++
	report := 1 + a.renewed[node]
	if first != 0 && a.asked[node]%2 == 0 {
		report -= min(a.Behind, a.renewed[node])
	}
	return report, nil
}

func (a *API) answer(ctx context.Context) error {
	a.mu.Lock()
	latency, away := a.Latency, a.Away
	a.mu.Unlock()
	select {
	case <-time.After(latency):
		return away
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
