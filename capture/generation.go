package capture

import (
	"errors"
	"fmt"
	"sync"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// generation is the number of the last transaction of nftables in this network.
// It costs one question, and while it stays the same nobody changed a thing.
func (s *session) generation() (uint32, error) {
	msgs, err := s.ask(unix.NFT_MSG_GETGEN, 0, nftables.TableFamilyUnspecified, nil)
	if err != nil {
		return 0, fmt.Errorf("ask for the generation of nftables: %w", err)
	}
	for _, m := range msgs {
		attrs, err := attributes(m)
		if err != nil {
			return 0, err
		}
		for attrs.Next() {
			if attrs.Type() == unix.NFTA_GEN_ID {
				return attrs.Uint32(), attrs.Err()
			}
		}
	}
	return 0, errors.New("ask for the generation of nftables: no answer")
}

// nextGeneration is the number after one; 0 is none.
func nextGeneration(gen uint32) uint32 {
	if gen++; gen == 0 {
		gen = 1
	}
	return gen
}

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
	case after != nextGeneration(before):
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
