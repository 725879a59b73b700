package feed

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/gridmesh/gridmesh/internal/latest"
	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/topology"
)

// batch is how long changes are gathered before a snapshot is published.
const batch = 20 * time.Millisecond

// pageSize is how many objects are asked for at once where lists are paged.
const pageSize = 500

// Feed makes snapshots from watches. Nothing is published before every watch
// has delivered one whole list. The last contact is any answer of the API
// server, a watch's bookmark included.
type Feed struct {
	latest.Value[*topology.Snapshot]
	client  *kube.Client
	log     *slog.Logger
	metrics *Metrics
	now     func() time.Time

	mu      sync.Mutex
	builder *topology.Builder
	missing map[string]bool // watches without a first list
	dirty   chan struct{}

	health health
}

// New watches through c on Run.
func New(c *kube.Client, log *slog.Logger, m *Metrics) *Feed {
	return &Feed{
		client: c, log: log, metrics: m, now: time.Now,
		builder: topology.NewBuilder(), missing: map[string]bool{}, dirty: make(chan struct{}, 1),
	}
}

// Run watches until ctx ends. Errors of the API server are retried for ever:
// the snapshot published last stays.
func (f *Feed) Run(ctx context.Context) error {
	watches := f.watches()
	f.mu.Lock()
	for _, w := range watches {
		f.missing[w.name] = true
	}
	f.mu.Unlock()
	var wg sync.WaitGroup
	for _, w := range watches {
		r := cache.NewReflectorWithOptions(w.api, w.kind, w.store, cache.ReflectorOptions{
			Name: "gridmesh/" + w.name,
			// client-go would wait up to 30 s: too long for a link that flaps.
			Backoff: &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Cap: 5 * time.Second, Steps: 10},
		})
		r.WatchListPageSize = pageSize
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
		if snap := f.build(); snap != nil {
			f.Publish(snap)
		}
	}
}

// build returns the next snapshot, or nil before the first lists are whole.
func (f *Feed) build() *topology.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.missing) > 0 {
		return nil
	}
	return f.builder.Build()
}

// edit changes a builder and reports whether anything is different then.
type edit func(b *topology.Builder) bool

// change runs edits, all in one snapshot, and marks the feed as dirty if they
// mattered.
func (f *Feed) change(edits ...edit) {
	f.mu.Lock()
	changed := false
	for _, e := range edits {
		changed = e(f.builder) || changed
	}
	f.mu.Unlock()
	if changed {
		f.markDirty()
	}
}

func (f *Feed) markDirty() {
	select {
	case f.dirty <- struct{}{}:
	default:
	}
}

// listed notes the first list of a watch, and reports whether it was that. It
// is an edit: the list is in the same snapshot.
func (f *Feed) listed(watch string) edit {
	return func(*topology.Builder) bool {
		first := f.missing[watch]
		delete(f.missing, watch)
		return first
	}
}
