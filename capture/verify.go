package capture

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/rules"
)

func nftMessage(msg int) nl.HeaderType {
	return nl.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | msg)
}

// nfgenmsg is the header of every message of nfnetlink: family, version 0, and
// the id of a resource, of which there is none.
func nfgenmsg(family nftables.TableFamily) []byte { return []byte{byte(family), 0, 0, 0} }

const nfgenmsgLen = 4

// attributes decodes what follows the header of a message.
func attributes(m nl.Message) (*nl.AttributeDecoder, error) {
	if len(m.Data) < nfgenmsgLen {
		return nil, fmt.Errorf("nftables: a message of %d bytes", len(m.Data))
	}
	attrs, err := nl.NewAttributeDecoder(m.Data[nfgenmsgLen:])
	if err != nil {
		return nil, fmt.Errorf("nftables: %w", err)
	}
	attrs.ByteOrder = binary.BigEndian
	return attrs, nil
}

// rendition is what the kernel says of our table of a family, all but elements,
// handles and what was counted: two of them are the same where nobody changed a
// rule. It is empty where there is no table, and counts the rules by chain.
func rendition(conn *session, family nftables.TableFamily) (text string, count map[string]int, err error) {
	tables, err := conn.ListTablesOfFamily(family)
	if err != nil {
		return "", nil, fmt.Errorf("list nftables tables: %w", err)
	}
	i := slices.IndexFunc(tables, func(t *nftables.Table) bool { return t.Name == rules.Name })
	if i < 0 {
		return "", nil, nil
	}
	lines, err := outline(conn, tables[i])
	if err != nil {
		return "", nil, err
	}
	msgs, err := conn.ask(unix.NFT_MSG_GETRULE, int(nl.Dump), family, []nl.Attribute{{Type: unix.NFTA_RULE_TABLE, Data: []byte(rules.Name + "\x00")}})
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
func outline(conn *session, t *nftables.Table) ([]string, error) {
	chains, err := conn.ListChainsOfTableFamily(t.Family)
	if err != nil {
		return nil, fmt.Errorf("list nftables chains: %w", err)
	}
	lines := []string{fmt.Sprintf("table %x", t.Flags)}
	for _, c := range chains {
		if c.Table.Name == rules.Name {
			lines = append(lines, chainLine(c))
		}
	}
	sets, err := conn.sets(t.Family)
	if err != nil {
		return nil, err
	}
	for _, s := range sets {
		lines = append(lines, s.line())
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
	attrs, err := attributes(m)
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

// remember takes what the kernel has now for what is to stay, after it was
// written: the rules are ours where there are as many as were written.
func remember(conn *session, family nftables.TableFamily, want []rules.Chain) (string, error) {
	text, count, err := rendition(conn, family)
	if err != nil {
		return "", err
	}
	for i := range want {
		if count[want[i].Name] != len(want[i].Rules) {
			return "", nil // changed already: Repair finds it different
		}
	}
	return text, nil
}

// intact reports whether the rules are those that were written.
func (t *table) intact() (bool, error) {
	if t.text == "" {
		return false, nil
	}
	text, _, err := rendition(t.conn, t.nft.Family)
	return text == t.text, err
}

// holds reports whether sets have the elements that they should have, and with
// exact no others.
func (t *table) holds(want bySet, sets []string, exact bool) (bool, error) {
	for _, name := range sets {
		have, err := t.conn.GetSetElements(t.sets[name])
		if err != nil {
			return false, fmt.Errorf("read set %s: %w", name, err)
		}
		gone, added := compare(have, want[name])
		if len(added) > 0 || exact && len(gone) > 0 {
			return false, nil
		}
	}
	return true, nil
}

func compare(have, want []nftables.SetElement) (gone, added []nftables.SetElement) {
	wanted := make(map[string]bool, len(want))
	for _, e := range want {
		wanted[identity(e)] = true
	}
	held := make(map[string]bool, len(have))
	for _, e := range have {
		held[identity(e)] = true
		if !wanted[identity(e)] {
			gone = append(gone, nftables.SetElement{Key: e.Key})
		}
	}
	for _, e := range want {
		if !held[identity(e)] {
			added = append(added, e)
		}
	}
	return gone, added
}

// identity tells elements apart, and the end of a range from the beginning of
// the next.
func identity(e nftables.SetElement) string {
	if e.IntervalEnd {
		return string(e.Key) + " end"
	}
	return string(e.Key)
}
