package capture

import (
	"fmt"
	"slices"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/rules"
)

// foundSet is a set or a map of our table as the kernel describes it. The library
// knows the types of some versions of nft(8) and fails for all sets of a table
// where one is of another, so it is not asked: somebody else's set there would be
// in the way of every start and every repair.
type foundSet struct {
	name                string
	flags               uint32
	key, keyLen         uint32 // the type is a number that user space alone understands
	data, dataLen, kind uint32 // of a map
}

// sets lists what our table of a family has; nothing where there is none.
func (s *session) sets(family nftables.TableFamily) ([]foundSet, error) {
	msgs, err := s.ask(unix.NFT_MSG_GETSET, int(nl.Dump), family, []nl.Attribute{{Type: unix.NFTA_SET_TABLE, Data: []byte(rules.Name + "\x00")}})
	if err != nil {
		return nil, fmt.Errorf("list nftables sets: %w", err)
	}
	var list []foundSet
	for _, m := range msgs {
		table, set, err := parseSet(m)
		if err != nil {
			return nil, fmt.Errorf("list nftables sets: %w", err)
		}
		if table == rules.Name {
			list = append(list, set)
		}
	}
	return list, nil
}

func parseSet(m nl.Message) (table string, s foundSet, err error) {
	attrs, err := attributes(m)
	if err != nil {
		return "", s, err
	}
	for attrs.Next() {
		switch attrs.Type() {
		case unix.NFTA_SET_TABLE:
			table = attrs.String()
		case unix.NFTA_SET_NAME:
			s.name = attrs.String()
		case unix.NFTA_SET_FLAGS:
			s.flags = attrs.Uint32()
		case unix.NFTA_SET_KEY_TYPE:
			s.key = attrs.Uint32()
		case unix.NFTA_SET_KEY_LEN:
			s.keyLen = attrs.Uint32()
		case unix.NFTA_SET_DATA_TYPE:
			s.data = attrs.Uint32()
		case unix.NFTA_SET_DATA_LEN:
			s.dataLen = attrs.Uint32()
		case unix.NFTA_SET_OBJ_TYPE:
			s.kind = attrs.Uint32()
		}
	}
	return table, s, attrs.Err()
}

// line tells a set from others, in a rendition.
func (s foundSet) line() string {
	return fmt.Sprintf("set %s flags %x, key %x of %d bytes, data %x of %d bytes, kind %d", s.name, s.flags, s.key, s.keyLen, s.data, s.dataLen, s.kind)
}

// holdsElementsOf reports whether elements of ours can be in it.
func (s foundSet) holdsElementsOf(ours *nftables.Set) bool {
	interval := s.flags&unix.NFT_SET_INTERVAL != 0
	return s.name == ours.Name && s.flags&unix.NFT_SET_MAP == 0 && interval == ours.Interval && s.keyLen == ours.KeyType.Bytes
}

// strange reports whether the table has a set that is none of ours. One without a
// name of its own is part of a rule, and goes with it.
func (t *table) strange(list []foundSet) bool {
	return slices.ContainsFunc(list, func(s foundSet) bool { return t.sets[s.name] == nil && s.flags&unix.NFT_SET_ANONYMOUS == 0 })
}
