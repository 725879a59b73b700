package nft

import (
	"errors"
	"fmt"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Generation is the number of the last transaction of nftables in this network.
// It costs one question, and while it stays the same nobody changed a thing.
func (s *Session) Generation() (uint32, error) {
	msgs, err := s.ask(unix.NFT_MSG_GETGEN, 0, nftables.TableFamilyUnspecified, nil)
	for _, m := range msgs {
		if gen, err := generationOf(m); err == nil {
			return gen, nil
		}
	}
	if err == nil {
		err = errNoAnswer
	}
	return 0, fmt.Errorf("ask for the generation of nftables: %w", err)
}

var errNoAnswer = errors.New("no answer")

func generationOf(m nl.Message) (uint32, error) {
	e, err := parseEntry(m)
	if err == nil && len(e.attrs[unix.NFTA_GEN_ID]) == 0 {
		err = errNoAnswer
	}
	if err != nil {
		return 0, err
	}
	return e.uint32(unix.NFTA_GEN_ID), nil
}

// NextGeneration is the number after one; 0 is none.
func NextGeneration(gen uint32) uint32 {
	if gen++; gen == 0 {
		gen = 1
	}
	return gen
}
