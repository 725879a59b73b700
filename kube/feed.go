package kube

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

// batch is how long changes are gathered before a snapshot is published.
const batch = 20 * time.Millisecond

// confirm is how long a list that drops half of what is known must stand.
const confirm = 10 * time.Second

// Feed makes snapshots from watches. Nothing is published before every watch
// has delivered one whole list.
type Feed struct {
	source.Cell
	client  *Client
	log     *slog.Logger
	metrics *Metrics
	now     func() time.Time

	mu      sync.Mutex
	builder *topology.Builder
	cidrs   map[string][]netip.Prefix // ServiceCIDR object -> ranges
	missing map[string]bool           // watches without a first list
	dirty   chan struct{}

	health   health
	triggers triggers
}

// NewFeed watches through c on Run.
func NewFeed(c *Client, log *slog.Logger, m *Metrics) *Feed {
	return &Feed{
		client: c, log: log, metrics: m, now: time.Now, triggers: triggers{since: time.Now()}, builder: topology.NewBuilder(),
		cidrs: map[string][]netip.Prefix{}, missing: map[string]bool{}, dirty: make(chan struct{}, 1),
	}
}

// Run watches until ctx ends. Errors of the API server are retried for ever:
// the snapshot published last stays.
func (f *Feed) Run(ctx context.Context) error {
	watches := f.watches()
	for _, w := range watches {
		f.missing[w.name] = true
	}
	var wg sync.WaitGroup
	for _, w := range watches {
		r := cache.NewReflectorWithOptions(w.lw, w.kind, &store{feed: f, watch: w, log: f.log.With("watch", w.name), known: map[topology.ObjectKey]int{}}, cache.ReflectorOptions{
			Name: "gridmesh/" + w.name,
			// client-go would wait up to 30 s: too long for a link that flaps.
			Backoff: &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Cap: 5 * time.Second, Steps: 10},
		})
		r.WatchListPageSize = 500
		wg.Go(func() { r.RunWithContext(ctx) })
	}
	f.publish(ctx)
	wg.Wait()
	return nil
}

// publish turns what changed within a batch into one snapshot.
func (f *Feed) publish(ctx context.Context) {
	for {
		select {
		case <-f.dirty:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(batch):
		case <-ctx.Done():
			return
		}
		f.mu.Lock()
		ready := len(f.missing) == 0
		var snap *topology.Snapshot
		if ready {
			snap = f.builder.Build()
		}
		f.mu.Unlock()
		if ready {
			f.Publish(snap)
		}
	}
}

// change runs one edit of the builder and wakes the publisher if it mattered.
func (f *Feed) change(edit func(b *topology.Builder) bool) {
	f.mu.Lock()
	changed := edit(f.builder)
	f.mu.Unlock()
	if changed {
		f.wake()
	}
}

func (f *Feed) wake() {
	select {
	case f.dirty <- struct{}{}:
	default:
	}
}
