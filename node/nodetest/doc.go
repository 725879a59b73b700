// Package nodetest holds twins, in memory, of what a node agent is made of:
// the kernel's rules, the server of Envoy, Envoy's admin socket, the API server
// and a source of snapshots. They keep the contract that the real ones keep
// (node's contract_*_test.go), fail on demand, and write what is asked of them
// into one Journal, so that a test sees in which order things happened.
package nodetest

import (
	"slices"
	"sync"
)

// Journal is what was done to the twins that share it, in order. The nil
// Journal takes nothing down.
type Journal struct {
	mu   sync.Mutex
	list []string
}

func (j *Journal) add(entry string) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.list = append(j.list, entry)
}

// Take returns what came since the last Take.
func (j *Journal) Take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	list := slices.Clone(j.list)
	j.list = nil
	return list
}
