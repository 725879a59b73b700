package preload

import "sync"

// maxDemand bounds the names that wait for the loop, which takes them at once
// unless it hangs. Those beyond it are heard of when they are used again.
const maxDemand = 4096

// Demand collects the clusters that Envoy asks for by name: from many streams,
// for one loop.
type Demand struct {
	mu    sync.Mutex
	names []string        // each once
	has   map[string]bool // those of names
	Wake  chan struct{}   // one slot: there are some
}

// NewDemand has none.
func NewDemand() *Demand { return &Demand{has: map[string]bool{}, Wake: make(chan struct{}, 1)} }

// Add notes what Envoy asks for. It does not block.
func (d *Demand) Add(clusters []string) {
	d.mu.Lock()
	for _, name := range clusters {
		if !d.has[name] && len(d.names) < maxDemand {
			d.has[name] = true
			d.names = append(d.names, name)
		}
	}
	d.mu.Unlock()
	select {
	case d.Wake <- struct{}{}:
	default:
	}
}

// Take returns what was asked for since the last time.
func (d *Demand) Take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.names
	d.names = nil
	clear(d.has)
	return list
}
