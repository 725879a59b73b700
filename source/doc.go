// Package source is where snapshots come from besides the API server, and
// where they go: a directory of manifests, the last good state on disk, and a
// Unix socket that the agent serves to other processes of the node.
//
// The file and the socket share one encoding (codec.go): a header with a
// format version, then checksummed records.
package source

import (
	"slices"
	"sync"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// Cell holds the newest snapshot and wakes who waits for the next. A wake-up
// carries nothing and is never lost: who was woken reads the newest.
type Cell struct {
	mu      sync.Mutex
	snap    *topology.Snapshot
	part    bool
	heard   time.Time
	waiters []chan struct{}
}

// Publish makes s the newest snapshot.
func (c *Cell) Publish(s *topology.Snapshot) { c.publish(s, false) }

// PublishPart makes s the newest snapshot, though it lacks what a node can do
// without: see Subset.
func (c *Cell) PublishPart(s *topology.Snapshot) { c.publish(s, true) }

func (c *Cell) publish(s *topology.Snapshot, part bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.snap, c.part = s, part
	for _, w := range c.waiters {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

// Snapshot returns the newest snapshot, nil before the first.
func (c *Cell) Snapshot() *topology.Snapshot {
	s, _ := c.Newest()
	return s
}

// Newest returns the newest snapshot, nil before the first, and whether it is a
// part: what is not in it may exist all the same.
func (c *Cell) Newest() (s *topology.Snapshot, part bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.snap, c.part
}

// Hear notes that where the snapshots come from was alive at a time.
func (c *Cell) Hear(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = at
}

// Heard returns when where the snapshots come from was last heard of; zero for
// never. The newest snapshot is no older.
func (c *Cell) Heard() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heard
}

// Wake returns a one-slot channel that is filled at every Publish.
func (c *Cell) Wake() <-chan struct{} {
	w := make(chan struct{}, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiters = append(c.waiters, w)
	if c.snap != nil {
		w <- struct{}{}
	}
	return w
}

// Forget ends what Wake began.
func (c *Cell) Forget(wake <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiters = slices.DeleteFunc(c.waiters, func(w chan struct{}) bool { return w == wake })
}
