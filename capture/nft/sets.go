package nft

import (
	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// Set is a set or a map of our table as the kernel describes it.
type Set struct {
	Name   string
	Flags  uint32
	KeyLen uint32
}

func newFoundSet(e *entry) Set {
	return Set{Name: e.string(unix.NFTA_SET_NAME), Flags: e.uint32(unix.NFTA_SET_FLAGS), KeyLen: e.uint32(unix.NFTA_SET_KEY_LEN)}
}

// Anonymous reports whether a set is part of a rule, with which it goes.
func (s Set) Anonymous() bool { return s.Flags&unix.NFT_SET_ANONYMOUS != 0 }

// HoldsElementsOf reports whether elements of ours can be in it.
func (s Set) HoldsElementsOf(ours *nftables.Set) bool {
	interval := s.Flags&unix.NFT_SET_INTERVAL != 0
	return s.Name == ours.Name && s.Flags&unix.NFT_SET_MAP == 0 && interval == ours.Interval && s.KeyLen == ours.KeyType.Bytes
}
