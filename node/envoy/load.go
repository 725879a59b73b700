package envoy

import (
	"fmt"

	"github.com/gridmesh/gridmesh/xds/admin"
)

// Load is how near Envoy is to what it may use.
type Load struct {
	admin.Overload
	// Newly are the connections that it refused since it was asked before, for
	// it had as many as it takes.
	Newly uint64 `json:"newlyRefused"`
}

// newly is what a counter has more than before; all of it, where it is a new Envoy's.
func newly(before, now uint64) uint64 {
	if now < before {
		return now
	}
	return now - before
}

// Full reports whether it takes no more connections, or took none just now.
func (l *Load) Full() bool { return l.Stopped || l.Newly > 0 }

// Why says what there is too much of, where it is full.
func (l *Load) Why() string {
	if l.Stopped {
		return fmt.Sprintf("its memory is full (%d %% of --envoy-heap-limit)", l.Heap)
	}
	return "it has as many as --envoy-heap-limit leaves room for"
}
