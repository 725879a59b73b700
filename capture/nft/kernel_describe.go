package nft

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Describe is what the kernel says of a table, all but elements, handles and
// what was counted: each chain with its rules, and the rest as "". It is empty
// where there is no table.
func (s *Session) Describe(t *nftables.Table) (map[string]string, error) {
	tables, err := s.ListTablesOfFamily(t.Family)
	if err != nil {
		return nil, fmt.Errorf("list nftables tables: %w", err)
	}
	i := slices.IndexFunc(tables, func(o *nftables.Table) bool { return o.Name == t.Name })
	if i < 0 {
		return map[string]string{}, nil
	}
	has := map[string]string{"": fmt.Sprintf("table %x\n", tables[i].Flags)}
	chains, err := s.ListChainsOfTableFamily(t.Family)
	if err != nil {
		return nil, fmt.Errorf("list nftables chains: %w", err)
	}
	for _, c := range chains {
		if c.Table.Name == t.Name {
			has[c.Name] = chainLine(c) + "\n"
		}
	}
	own := []nl.Attribute{{Type: unix.NFTA_SET_TABLE, Data: []byte(t.Name + "\x00")}} // NFTA_RULE_TABLE too
	sets, err := s.ask(unix.NFT_MSG_GETSET, int(nl.Dump), t.Family, own)
	if err != nil {
		return nil, fmt.Errorf("list nftables sets: %w", err)
	}
	var lines []string
	for _, m := range sets {
		if table, set, err := parseSet(m); err != nil {
			return nil, err
		} else if table == t.Name {
			lines = append(lines, set.line()+"\n")
		}
	}
	slices.Sort(lines)
	has[""] += strings.Join(lines, "")
	list, err := s.ask(unix.NFT_MSG_GETRULE, int(nl.Dump), t.Family, own)
	if err != nil {
		return nil, fmt.Errorf("list nftables rules: %w", err)
	}
	for _, m := range list {
		if table, chain, body, err := parseRule(m); err != nil {
			return nil, err
		} else if table == t.Name {
			has[chain] += fmt.Sprintf("%x\n", body)
		}
	}
	return has, nil
}
