package node

import "sync"

// maxDemand bounds the names that wait for the loop, which takes them at once
// unless it hangs. Those beyond it are heard of when they are used again.
const maxDemand = 4096

// demand collects the clusters that Envoy asks for by name: from many streams,
// for one loop.
type demand struct {
	mu    sync.Mutex
	names []string        // each once
	has   map[string]bool // those of names
	wake  chan struct{}   // one slot
}

func newDemand() *demand { return &demand{has: map[string]bool{}, wake: make(chan struct{}, 1)} }

func (d *demand) add(clusters []string) {
	d.mu.Lock()
	for _, name := range clusters {
		if !d.has[name] && len(d.names) < maxDemand {
			d.has[name] = true
			d.names = append(d.names, name)
		}
	}
	d.mu.Unlock()
	fill(d.wake)
}

func (d *demand) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.names
	d.names = nil
	clear(d.has)
	return list
}
