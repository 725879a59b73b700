package capture

import (
	"sync"

	"github.com/gridmesh/gridmesh/capture/nft"
)

// harmless are the last transactions that changed nothing that Repair looks
// at, without any other between them. Clients makes them, beside the owner of
// the Capture.
type harmless struct {
	mu         sync.Mutex
	first, end uint32 // the generation before them, and after them
}

// add takes what the generation was before and after one such transaction.
// More than one between the two is somebody else's as well, and not taken.
func (h *harmless) add(before, after uint32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case after != nft.NextGeneration(before):
		h.first, h.end = 0, 0
	case h.end != before || h.first == after: // 2^32 of them are enough
		h.first, h.end = before, after
	default:
		h.end = after
	}
}

// after is the newest generation that differs from gen by them alone.
func (h *harmless) after(gen uint32) uint32 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if gen != 0 && h.end != 0 && gen-h.first <= h.end-h.first {
		return h.end
	}
	return gen
}
