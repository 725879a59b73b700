package nft

import (
	"fmt"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/rules"
)

// Set is a set or a map of our table as the kernel describes it. The library
// knows the types of some versions of nft(8) and fails for all sets of a table
// where one is of another, so it is not asked: somebody else's set there would be
// in the way of every start and every repair.
type Set struct {
	Name                string
	Flags               uint32
	Key, KeyLen         uint32 // the type is a number that user space alone understands
	Data, DataLen, Kind uint32 // of a map
}

// Sets lists what our table of a family has; nothing where there is none.
func (s *Session) Sets(family nftables.TableFamily) ([]Set, error) {
	msgs, err := s.ask(unix.NFT_MSG_GETSET, int(nl.Dump), family, []nl.Attribute{{Type: unix.NFTA_SET_TABLE, Data: []byte(rules.Name + "\x00")}})
	if err != nil {
		return nil, fmt.Errorf("list nftables sets: %w", err)
	}
	var list []Set
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

func parseSet(m nl.Message) (table string, s Set, err error) {
	attrs, err := Attributes(m)
	if err != nil {
		return "", s, err
	}
	for attrs.Next() {
		switch attrs.Type() {
		case unix.NFTA_SET_TABLE:
			table = attrs.String()
		case unix.NFTA_SET_NAME:
			s.Name = attrs.String()
		case unix.NFTA_SET_FLAGS:
			s.Flags = attrs.Uint32()
		case unix.NFTA_SET_KEY_TYPE:
			s.Key = attrs.Uint32()
		case unix.NFTA_SET_KEY_LEN:
			s.KeyLen = attrs.Uint32()
		case unix.NFTA_SET_DATA_TYPE:
			s.Data = attrs.Uint32()
		case unix.NFTA_SET_DATA_LEN:
			s.DataLen = attrs.Uint32()
		case unix.NFTA_SET_OBJ_TYPE:
			s.Kind = attrs.Uint32()
		}
	}
	return table, s, attrs.Err()
}

// line tells a set from others, in a rendition.
func (s Set) line() string {
	return fmt.Sprintf("set %s flags %x, key %x of %d bytes, data %x of %d bytes, kind %d", s.Name, s.Flags, s.Key, s.KeyLen, s.Data, s.DataLen, s.Kind)
}

// HoldsElementsOf reports whether elements of ours can be in it.
func (s Set) HoldsElementsOf(ours *nftables.Set) bool {
	interval := s.Flags&unix.NFT_SET_INTERVAL != 0
	return s.Name == ours.Name && s.Flags&unix.NFT_SET_MAP == 0 && interval == ours.Interval && s.KeyLen == ours.KeyType.Bytes
}
