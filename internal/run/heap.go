package run

import (
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
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

// ofMemory is the part of its control group's memory that the heap of a process may have before the
// garbage collector works harder: the rest is the kernel's on its behalf, and what lies beside the heap.
const ofMemory = 0.9

// KeepToLimit has the garbage collector keep the heap below the memory that the process's control
// group has, unless GOMEMLIMIT says otherwise: garbage alone has no process killed.
func KeepToLimit() {
	_, _ = memlimit.Set(memlimit.WithRatio(ofMemory)) // without a limit, or where none can be read, there is nothing to keep to
}
