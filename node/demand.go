package node

import "sync"

// demand collects the clusters that Envoy asks for by name: from many streams,
// for one loop.
type demand struct {
	mu    sync.Mutex
	names []string
	wake  chan struct{} // one slot
}

func newDemand() *demand { return &demand{wake: make(chan struct{}, 1)} }

func (d *demand) add(clusters []string) {
	d.mu.Lock()
	d.names = append(d.names, clusters...)
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *demand) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.names
	d.names = nil
	return list
}
