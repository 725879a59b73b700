package nft

import (
	"errors"
	"fmt"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// Generation is the number of the last transaction of nftables in this network.
// It costs one question, and while it stays the same nobody changed a thing.
func (s *Session) Generation() (uint32, error) {
	msgs, err := s.ask(unix.NFT_MSG_GETGEN, 0, nftables.TableFamilyUnspecified, nil)
	if err != nil {
		return 0, fmt.Errorf("ask for the generation of nftables: %w", err)
	}
	for _, m := range msgs {
		attrs, err := Attributes(m)
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

// NextGeneration is the number after one; 0 is none.
func NextGeneration(gen uint32) uint32 {
	if gen++; gen == 0 {
		gen = 1
	}
	return gen
}
