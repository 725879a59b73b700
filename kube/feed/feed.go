package feed

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/gridmesh/gridmesh/internal/latest"
	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/internal/lists"
	"github.com/gridmesh/gridmesh/topology"
)

// batch is the shortest time between two snapshots: what changes within it is
// one.
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
	retry   wait.Backoff  // between lists and watches that fail
	look    time.Duration // after which a list that is held back is looked at again, at first
	hurry   int           // how many times as fast watches count as silent; 0 for once

	mu      sync.Mutex
	running bool
	all     []watch // made by the first Run: they know what the builder holds
	builder *topology.Builder
	missing map[string]bool        // watches without a first list
	doubted map[string]lists.Doubt // lists that are held back, by watch
	spoke   map[string]time.Time   // the last event, bookmark, or list that was believed, by watch
	waits   waits                  // of who waits for what is unheard
	dirty   chan struct{}

	health health
}

// retry is shorter than client-go's own, which would wait up to 30 s: too long
// for a link that flaps.
var retry = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Cap: 5 * time.Second, Steps: 10}

// New watches through c on Run.
func New(c *kube.Client, log *slog.Logger, m *Metrics) *Feed {
	return &Feed{
		client: c, log: log, metrics: m, now: time.Now, retry: retry, look: lists.FirstLook,
		builder: topology.NewBuilder(), missing: map[string]bool{}, doubted: map[string]lists.Doubt{}, spoke: map[string]time.Time{}, dirty: make(chan struct{}, 1),
	}
}

// ErrRuns means that a feed runs already.
var ErrRuns = errors.New("the feed runs already")

// Run watches until ctx ends. Errors of the API server are retried for ever:
// the snapshot published last stays. Once it has ended it may be called again,
// and goes on from what it knew then.
func (f *Feed) Run(ctx context.Context) error {
	watches, err := f.begin()
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	for _, w := range watches {
		r := cache.NewReflectorWithOptions(w.api, w.kind, w.store, cache.ReflectorOptions{
			Name: "gridmesh/" + w.name, Backoff: &f.retry, // each has a copy of it
		})
		r.WatchListPageSize = pageSize
		wg.Go(func() { r.RunWithContext(ctx); w.again.Rest() })
	}
	f.publish(ctx)
	wg.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running = false
	return nil
}

func (f *Feed) begin() ([]watch, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running {
		return nil, ErrRuns
	}
	f.running = true
	if f.all == nil {
		f.all = f.watches()
		for _, w := range f.all {
			f.missing[w.name] = true
		}
	}
	return f.all, nil
}

// publish makes a snapshot of the first change after a pause at once, and of
// what changes within a batch after that another one.
func (f *Feed) publish(ctx context.Context) {
	var last time.Time
	for {
		select {
		case <-f.dirty:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(batch - time.Since(last)):
		case <-ctx.Done():
			return
		}
		if snap := f.build(); snap != nil {
			last = time.Now()
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
	select {
	case <-f.dirty: // what marked it is in this snapshot
	default:
	}
	return f.builder.Build()
}

// edit changes a builder and reports whether anything is different then.
type edit func(b *topology.Builder) bool

// change runs edits, all in one snapshot, marks the feed as dirty if they
// mattered, and reports whether they did.
func (f *Feed) change(edits ...edit) (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range edits {
		changed = e(f.builder) || changed
	}
	if changed {
		f.markDirty()
	}
	return changed
}

func (f *Feed) markDirty() {
	select {
	case f.dirty <- struct{}{}:
	default:
	}
}

// listed notes that a list of a watch was taken, and reports whether it was the
// first. It is an edit: the list is in the same snapshot.
func (f *Feed) listed(watch string) edit {
	return func(*topology.Builder) bool {
		first := f.missing[watch]
		delete(f.missing, watch)
		delete(f.doubted, watch)
		if f.spoke[watch] = f.now(); first {
			f.showHeard(watch)
		}
		return first
	}
}

// doubts notes why a list of a watch is held back.
func (f *Feed) doubts(watch string, d lists.Doubt) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.doubted[watch] = d
}

// distrusts reports whether a list of another watch cannot be true: it lacks
// what every API server has.
func (f *Feed) distrusts(but string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for watch, d := range f.doubted {
		if d.Gross && watch != but {
			return true
		}
	}
	return false
}
