package nft

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Jump is a rule of anybody's table that leads to another chain.
type Jump struct {
	Chain  string
	Handle uint64
	To     string
}

// Jumps lists the rules of a table that lead to another chain, those of one chain or, for
// "", of all.
func (s *Session) Jumps(t *nftables.Table, chain string) (list []Jump, err error) {
	attrs := []nl.Attribute{{Type: unix.NFTA_RULE_TABLE, Data: []byte(t.Name + "\x00")}}
	if chain != "" {
		attrs = append(attrs, nl.Attribute{Type: unix.NFTA_RULE_CHAIN, Data: []byte(chain + "\x00")})
	}
	msgs, err := s.ask(unix.NFT_MSG_GETRULE, int(nl.Dump), t.Family, attrs)
	if err != nil {
		return nil, fmt.Errorf("list nftables rules: %w", err)
	}
	for _, m := range msgs {
		e, err := parseEntry(m)
		if err != nil {
			return nil, fmt.Errorf("list nftables rules: %w", err)
		}
		of := e.string(unix.NFTA_RULE_CHAIN)
		if m.Data[0] != byte(t.Family) || e.string(unix.NFTA_RULE_TABLE) != t.Name || chain != "" && of != chain {
			continue // an old kernel tells of all
		}
		rule, err := ExpressionsOf(e.attrs[unix.NFTA_RULE_EXPRESSIONS])
		if err != nil {
			return nil, fmt.Errorf("list nftables rules: %w", err)
		}
		for _, x := range rule {
			if _, to, ok := x.Verdict(); ok && to != "" {
				list = append(list, Jump{of, binary.BigEndian.Uint64(padded(e.attrs[unix.NFTA_RULE_HANDLE])), to})
			}
		}
	}
	return list, nil
}

// padded is a number in eight bytes.
func padded(b []byte) []byte {
	const size = 8
	return append(make([]byte, max(size-len(b), 0)), b...)[:size]
}

// HasChain reports whether anybody's table has a chain. A table that is not there has none.
func (s *Session) HasChain(t *nftables.Table, name string) (bool, error) {
	_, err := s.ask(unix.NFT_MSG_GETCHAIN, 0, t.Family, []nl.Attribute{
		{Type: unix.NFTA_CHAIN_TABLE, Data: []byte(t.Name + "\x00")}, {Type: unix.NFTA_CHAIN_NAME, Data: []byte(name + "\x00")},
	})
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask for nftables chain %s: %w", name, err)
	}
	return true, nil
}
