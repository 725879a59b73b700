package nft

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
)

// Jump is a rule of anybody's table that leads to another chain.
type Jump struct {
	Chain  string
	Handle uint64
	To     string
}

// EachJump hands on the rules of a chain that lead to another one, in their order, until
// take says that it has enough. A chain that is not there has none. Of a torn list it gets
// what was told, and dump.ErrTorn is returned.
func (s *Session) EachJump(t *nftables.Table, chain string, take func(Jump) (more bool)) error {
	return s.eachRule(t, chain, func(e *entry) error {
		rule, err := ExpressionsOf(e.attrs[unix.NFTA_RULE_EXPRESSIONS])
		if err != nil {
			return err
		}
		for _, x := range rule {
			if _, to, ok := x.Verdict(); ok && to != "" && !take(Jump{chain, e.handle(unix.NFTA_RULE_HANDLE), to}) {
				return errEnough
			}
		}
		return nil
	})
}

// FirstRule is the handle of a chain's first rule, which the kernel gives to no other; 0
// where it has none, or is not there.
func (s *Session) FirstRule(t *nftables.Table, chain string) (handle uint64, err error) {
	_, err = dump.Again(func() (struct{}, error) {
		return struct{}{}, s.eachRule(t, chain, func(e *entry) error {
			handle = e.handle(unix.NFTA_RULE_HANDLE)
			return errEnough
		})
	})
	return handle, err
}

func (s *Session) eachRule(t *nftables.Table, chain string, take func(*entry) error) error {
	err := s.each(unix.NFT_MSG_GETRULE, t.Family, []nl.Attribute{
		{Type: unix.NFTA_RULE_TABLE, Data: []byte(t.Name + "\x00")}, {Type: unix.NFTA_RULE_CHAIN, Data: []byte(chain + "\x00")},
	}, func(family nftables.TableFamily, e *entry) error {
		if family != t.Family || e.string(unix.NFTA_RULE_TABLE) != t.Name || e.string(unix.NFTA_RULE_CHAIN) != chain {
			return nil // an old kernel tells of all
		}
		return take(e)
	})
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return fmt.Errorf("list rules of nftables chain %s: %w", chain, err)
}

// handle is a number in eight bytes.
func (e *entry) handle(of uint16) uint64 {
	const size = 8
	b := e.attrs[of]
	return binary.BigEndian.Uint64(append(make([]byte, max(size-len(b), 0)), b...)[:size])
}

// EachChain hands on the names of a table's chains. Of a torn list it gets those that were
// told, and dump.ErrTorn is returned.
func (s *Session) EachChain(t *nftables.Table, take func(name string)) error {
	err := s.each(unix.NFT_MSG_GETCHAIN, t.Family, nil, func(family nftables.TableFamily, e *entry) error {
		if family == t.Family && e.string(unix.NFTA_CHAIN_TABLE) == t.Name {
			take(e.string(unix.NFTA_CHAIN_NAME))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list chains of nftables table %s: %w", t.Name, err)
	}
	return nil
}

// HasTable reports whether a table is there.
func (s *Session) HasTable(t *nftables.Table) (bool, error) {
	m, err := s.one(unix.NFT_MSG_GETTABLE, t.Family, nl.Attribute{Type: unix.NFTA_TABLE_NAME, Data: []byte(t.Name + "\x00")})
	if err != nil {
		return false, fmt.Errorf("ask for nftables table %s: %w", t.Name, err)
	}
	return m != nil, nil
}

// HasChain reports whether anybody's table has a chain. A table that is not there has none.
func (s *Session) HasChain(t *nftables.Table, name string) (bool, error) {
	c, err := s.Chain(t, name)
	return c != nil, err
}

// Chain is one of anybody's table, as Chains has it; nil where it is not there.
func (s *Session) Chain(t *nftables.Table, name string) (*nftables.Chain, error) {
	m, err := s.one(unix.NFT_MSG_GETCHAIN, t.Family,
		nl.Attribute{Type: unix.NFTA_CHAIN_TABLE, Data: []byte(t.Name + "\x00")}, nl.Attribute{Type: unix.NFTA_CHAIN_NAME, Data: []byte(name + "\x00")})
	var c *nftables.Chain
	if err == nil && m != nil {
		c, err = chainOf(*m)
	}
	if err != nil {
		return nil, fmt.Errorf("ask for nftables chain %s: %w", name, err)
	}
	return c, nil
}

// one asks for a single thing: nobody can tear that. It is nil where it is not there.
func (s *Session) one(msg int, family nftables.TableFamily, attrs ...nl.Attribute) (*nl.Message, error) {
	list, err := s.ask(msg, 0, family, attrs)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, nil
	case err != nil:
		return nil, err
	case len(list) == 0:
		return nil, errNoAnswer
	}
	return &list[0], nil
}
