package nft

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/rules"
)

// Rendition is what the kernel says of our table of a family, all but elements,
// handles and what was counted: two of them are the same where nobody changed a
// rule. It is empty where there is no table, and counts the rules by chain.
func (s *Session) Rendition(family nftables.TableFamily) (text string, count map[string]int, err error) {
	tables, err := s.ListTablesOfFamily(family)
	if err != nil {
		return "", nil, fmt.Errorf("list nftables tables: %w", err)
	}
	i := slices.IndexFunc(tables, func(t *nftables.Table) bool { return t.Name == rules.Name })
	if i < 0 {
		return "", nil, nil
	}
	lines, err := s.outline(tables[i])
	if err != nil {
		return "", nil, err
	}
	msgs, err := s.ask(unix.NFT_MSG_GETRULE, int(nl.Dump), family, []nl.Attribute{{Type: unix.NFTA_RULE_TABLE, Data: []byte(rules.Name + "\x00")}})
	if err != nil {
		return "", nil, fmt.Errorf("list nftables rules: %w", err)
	}
	count = map[string]int{}
	for _, m := range msgs {
		table, chain, body, err := parseRule(m)
		if err != nil {
			return "", nil, err
		}
		if table == rules.Name {
			lines = append(lines, fmt.Sprintf("%s %05d %x", chain, count[chain], body))
			count[chain]++
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), count, nil
}

// outline is a table without rules and elements.
func (s *Session) outline(t *nftables.Table) ([]string, error) {
	chains, err := s.ListChainsOfTableFamily(t.Family)
	if err != nil {
		return nil, fmt.Errorf("list nftables chains: %w", err)
	}
	lines := []string{fmt.Sprintf("table %x", t.Flags)}
	for _, c := range chains {
		if c.Table.Name == rules.Name {
			lines = append(lines, chainLine(c))
		}
	}
	sets, err := s.Sets(t.Family)
	if err != nil {
		return nil, err
	}
	for _, set := range sets {
		lines = append(lines, set.line())
	}
	return lines, nil
}

func chainLine(c *nftables.Chain) string {
	line := "chain " + c.Name + " " + string(c.Type)
	if c.Hooknum != nil && c.Priority != nil {
		line += fmt.Sprintf(" hook %d priority %d", *c.Hooknum, *c.Priority)
	}
	if c.Policy != nil {
		line += fmt.Sprintf(" policy %d", *c.Policy)
	}
	return line
}

// parseRule reads where a rule is, and its expressions without what they count.
func parseRule(m nl.Message) (table, chain string, body []byte, err error) {
	attrs, err := Attributes(m)
	if err != nil {
		return "", "", nil, err
	}
	for attrs.Next() {
		switch attrs.Type() {
		case unix.NFTA_RULE_TABLE:
			table = attrs.String()
		case unix.NFTA_RULE_CHAIN:
			chain = attrs.String()
		case unix.NFTA_RULE_EXPRESSIONS:
			attrs.Nested(func(list *nl.AttributeDecoder) error {
				for list.Next() {
					body = append(body, uncounted(list.Bytes())...)
				}
				return list.Err()
			})
		}
	}
	return table, chain, body, attrs.Err()
}

// uncounted is an expression, or the name alone of one that counts.
func uncounted(raw []byte) []byte {
	attrs, err := nl.NewAttributeDecoder(raw)
	if err != nil {
		return raw
	}
	for attrs.Next() {
		if attrs.Type() == unix.NFTA_EXPR_NAME && attrs.String() == "counter" {
			return []byte("counter")
		}
	}
	return raw
}
