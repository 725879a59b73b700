package nft

import (
	"encoding/binary"
	"fmt"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Chains lists the chains of all tables: of each its table, name, policy and hook.
// The library does not say where the list is torn; this has what was told then
// beside dump.ErrTorn.
func (s *Session) Chains() ([]*nftables.Chain, error) {
	msgs, torn := s.ask(unix.NFT_MSG_GETCHAIN, int(nl.Dump), nftables.TableFamilyUnspecified, nil)
	var list []*nftables.Chain
	for _, m := range msgs {
		c, err := chainOf(m)
		if err != nil {
			return nil, fmt.Errorf("list nftables chains: %w", err)
		}
		list = append(list, c)
	}
	if torn != nil {
		return list, fmt.Errorf("list nftables chains: %w", torn)
	}
	return list, nil
}

func chainOf(m nl.Message) (*nftables.Chain, error) {
	e, err := parseEntry(m)
	if err != nil {
		return nil, err
	}
	c := &nftables.Chain{
		Table: &nftables.Table{Name: e.string(unix.NFTA_CHAIN_TABLE), Family: nftables.TableFamily(m.Data[0])},
		Name:  e.string(unix.NFTA_CHAIN_NAME),
	}
	if len(e.attrs[unix.NFTA_CHAIN_POLICY]) > 0 {
		policy := nftables.ChainPolicy(e.uint32(unix.NFTA_CHAIN_POLICY))
		c.Policy = &policy
	}
	hook, err := nl.NewAttributeDecoder(e.attrs[unix.NFTA_CHAIN_HOOK])
	if err != nil {
		return nil, err
	}
	hook.ByteOrder = binary.BigEndian
	for hook.Next() {
		if hook.Type() == unix.NFTA_HOOK_HOOKNUM {
			c.Hooknum = nftables.ChainHookRef(nftables.ChainHook(hook.Uint32()))
		}
	}
	return c, hook.Err()
}
