package run

import (
	"os"
	"runtime/debug"
)

// gcPercent trades a little processor for memory: the heaps of agent and
// controller are large and still, and their garbage, but for the first list,
// small.
const gcPercent = 50

// StillHeap sets the garbage collector for such a process, unless GOGC says
// otherwise.
func StillHeap() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
