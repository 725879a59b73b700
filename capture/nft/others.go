package nft

import (
	"encoding/binary"
	"fmt"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Expression is one of a rule that anybody may have written: the library leaves out those
// that it does not know, and with them what a rule depends on.
type Expression struct {
	Name  string
	attrs entry
}

// Number is an attribute that is a number; 0 where there is none.
func (e Expression) Number(of uint16) uint32 { return e.attrs.uint32(of) }

// Text is an attribute that is a name.
func (e Expression) Text(of uint16) string { return e.attrs.string(of) }

// Bytes are an attribute as it is.
func (e Expression) Bytes(of uint16) []byte { return e.attrs.attrs[of] }

// Value is what is inside an attribute that is data: a value, to compare with.
func (e Expression) Value(of uint16) []byte { return inside(e.attrs.attrs[of])[unix.NFTA_DATA_VALUE] }

// Verdict is what an immediate expression has for one, and the chain that it leads to;
// false where it has none.
func (e Expression) Verdict() (code int32, chain string, ok bool) {
	if e.Name != "immediate" || e.Number(unix.NFTA_IMMEDIATE_DREG) != unix.NFT_REG_VERDICT {
		return 0, "", false
	}
	of := entry{inside(inside(e.attrs.attrs[unix.NFTA_IMMEDIATE_DATA])[unix.NFTA_DATA_VERDICT])}
	return int32(of.uint32(unix.NFTA_VERDICT_CODE)), of.string(unix.NFTA_VERDICT_CHAIN), len(of.attrs) > 0
}

// inside are the attributes in an attribute; none where it has none.
func inside(raw []byte) map[uint16][]byte {
	all := map[uint16][]byte{}
	attrs, err := nl.NewAttributeDecoder(raw)
	if err != nil {
		return all
	}
	for attrs.Next() {
		all[attrs.Type()] = attrs.Bytes()
	}
	return all
}

// RulesOf lists the rules of anybody's table, by chain; of a torn list, what was told,
// beside dump.ErrTorn.
func (s *Session) RulesOf(t *nftables.Table) (map[string][][]Expression, error) {
	msgs, torn := s.ask(unix.NFT_MSG_GETRULE, int(nl.Dump), t.Family, []nl.Attribute{{Type: unix.NFTA_RULE_TABLE, Data: []byte(t.Name + "\x00")}})
	chains := map[string][][]Expression{}
	for _, m := range msgs {
		e, err := parseEntry(m)
		if err != nil {
			return nil, fmt.Errorf("list nftables rules: %w", err)
		}
		if m.Data[0] != byte(t.Family) || e.string(unix.NFTA_RULE_TABLE) != t.Name {
			continue // an old kernel tells of all
		}
		rule, err := ExpressionsOf(e.attrs[unix.NFTA_RULE_EXPRESSIONS])
		if err != nil {
			return nil, fmt.Errorf("list nftables rules: %w", err)
		}
		name := e.string(unix.NFTA_RULE_CHAIN)
		chains[name] = append(chains[name], rule)
	}
	if torn != nil {
		return chains, fmt.Errorf("list nftables rules: %w", torn)
	}
	return chains, nil
}

// ExpressionsOf reads the expressions of a rule.
func ExpressionsOf(raw []byte) (list []Expression, err error) {
	if len(raw) == 0 {
		return nil, nil
	}
	attrs, err := nl.NewAttributeDecoder(raw)
	if err != nil {
		return nil, err
	}
	attrs.ByteOrder = binary.BigEndian
	for attrs.Next() {
		one := entry{inside(attrs.Bytes())}
		list = append(list, Expression{one.string(unix.NFTA_EXPR_NAME), entry{inside(one.attrs[unix.NFTA_EXPR_DATA])}})
	}
	return list, attrs.Err()
}
