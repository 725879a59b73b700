package nodetest

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/topology"
)

// Kernel is what is in force on a node. It outlives every Capture of it.
type Kernel struct {
	mu        sync.Mutex
	installed bool
	pathless  bool // somebody removed the kernel path
	rules     Rules
}

// Rules is what a kernel holds, sorted.
type Rules struct {
	Guard, Pods []netip.Prefix
	Serve       []topology.Frontend // handed to Envoy
	Kernel      []topology.Frontend // served by the kernel path, where Envoy does not take them
	Absent      bool                // and it takes none, for it is absent
}

// InForce returns what the kernel holds, and whether there are rules at all.
func (k *Kernel) InForce() (Rules, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.rules
	r.Guard, r.Pods, r.Serve, r.Kernel = slices.Clone(r.Guard), slices.Clone(r.Pods), slices.Clone(r.Serve), slices.Clone(r.Kernel)
	return r, k.installed
}

// Flush removes all rules, as somebody else on the node would.
func (k *Kernel) Flush() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.installed, k.pathless, k.rules = false, false, Rules{}
}

// FlushPath removes the kernel path alone, as somebody else on the node would.
func (k *Kernel) FlushPath() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pathless, k.rules.Kernel = true, nil
}

// hasPath reports whether there is a kernel path to write to.
func (k *Kernel) hasPath() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.installed && !k.pathless
}

func (r *Rules) add(guard []netip.Prefix, serve []topology.Frontend) {
	r.Guard = plan.Disjoint(slices.Concat(r.Guard, guard))
	r.Serve = append(r.Serve, serve...)
	slices.SortFunc(r.Serve, topology.Frontend.Compare)
	r.Serve = slices.Compact(r.Serve)
}

func (k *Kernel) write(edit func(*Rules)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.installed = true
	edit(&k.rules)
}
