package nft

import (
	"encoding/binary"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/capture/rules"
)

// Dump asks the kernel's netfilter for a list, and takes each item as it comes,
// also of one that is torn.
func Dump(request uint16, family byte, attrs []byte, take func(item []byte) error) error {
	conn, err := nl.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer conn.Close()
	return dump.Each(conn, nl.Message{
		Header: nl.Header{Type: nl.HeaderType(request), Flags: nl.Request | nl.Dump},
		Data:   append(Header(nftables.TableFamily(family)), attrs...),
	}, func(m nl.Message) error {
		if len(m.Data) < headerLen {
			return nil
		}
		return take(m.Data[headerLen:])
	})
}

// EachAttribute walks attributes, and leaves out what follows one that is cut off.
func EachAttribute(b []byte, do func(kind uint16, value []byte)) {
	for len(b) >= unix.NLA_HDRLEN {
		length := int(binary.NativeEndian.Uint16(b))
		if length < unix.NLA_HDRLEN || length > len(b) {
			return
		}
		do(binary.NativeEndian.Uint16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), b[unix.NLA_HDRLEN:length])
		b = b[min((length+3)&^3, len(b)):]
	}
}

// Attribute makes one.
func Attribute(kind uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(unix.NLA_HDRLEN+len(value)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), value...)
	return append(b, make([]byte, -len(b)&3)...)
}

// ReadMap reads a set of a table back, or a map with what it leads to. An element
// without a key is a catch-all. Of a list that stays torn it has what was told, beside
// dump.ErrTorn.
func ReadMap(table, name string) ([]nftables.SetElement, error) {
	return readMap(func(take func(e *nftables.SetElement) error) error { return EachOfMap(table, name, take) })
}

// EachOfMap hands the elements of a set or map on as they come, of a list that is torn, too,
// at whose end it returns dump.ErrTorn.
func EachOfMap(table, name string, take func(e *nftables.SetElement) error) error {
	attrs := append(Attribute(unix.NFTA_SET_ELEM_LIST_TABLE, []byte(table+"\x00")), Attribute(unix.NFTA_SET_ELEM_LIST_SET, []byte(name+"\x00"))...)
	return Dump(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETSETELEM, unix.NFPROTO_INET, attrs, func(item []byte) error {
		for _, e := range parseElements(item) {
			if err := take(&e); err != nil {
				return err
			}
		}
		return nil
	})
}

func readMap(each func(take func(e *nftables.SetElement) error) error) ([]nftables.SetElement, error) {
	return dump.Again(func() (list []nftables.SetElement, err error) {
		err = each(func(e *nftables.SetElement) error {
			list = append(list, *e)
			return nil
		})
		return list, err
	})
}

// parseElements are the elements of one message.
func parseElements(item []byte) (list []nftables.SetElement) {
	EachAttribute(item, func(kind uint16, value []byte) {
		if kind != unix.NFTA_SET_ELEM_LIST_ELEMENTS {
			return
		}
		EachAttribute(value, func(_ uint16, value []byte) { list = append(list, parseMapped(value)) })
	})
	return list
}

func parseMapped(b []byte) (e nftables.SetElement) {
	const keyEnd = 10 // NFTA_SET_ELEM_KEY_END of linux/netfilter/nf_tables.h
	data := func(b []byte) (value []byte) {
		EachAttribute(b, func(kind uint16, v []byte) {
			if kind == unix.NFTA_DATA_VALUE {
				value = append([]byte(nil), v...)
			}
		})
		return value
	}
	EachAttribute(b, func(kind uint16, value []byte) {
		switch kind {
		case unix.NFTA_SET_ELEM_KEY:
			e.Key = data(value)
		case unix.NFTA_SET_ELEM_FLAGS:
			e.IntervalEnd = bigEndian(value)&unix.NFT_SET_ELEM_INTERVAL_END != 0
		case keyEnd:
			e.KeyEnd = data(value)
		case unix.NFTA_SET_ELEM_DATA:
			e.Val, e.VerdictData = data(value), parseVerdict(value)
		}
	})
	return e
}

func parseVerdict(b []byte) (v *expr.Verdict) {
	EachAttribute(b, func(kind uint16, value []byte) {
		if kind != unix.NFTA_DATA_VERDICT {
			return
		}
		v = &expr.Verdict{}
		EachAttribute(value, func(kind uint16, value []byte) {
			switch {
			case kind == unix.NFTA_VERDICT_CODE && len(value) == 4:
				v.Kind = expr.VerdictKind(int32(binary.BigEndian.Uint32(value)))
			case kind == unix.NFTA_VERDICT_CHAIN:
				v.Chain = unix.ByteSliceToString(value)
			}
		})
	})
	return v
}

// chain is the chain that something belongs to, or the set that is told of apart; "" for what is
// of none.
func (e *entry) chain(kind string) string {
	switch kind {
	case "chains":
		return e.string(unix.NFTA_CHAIN_NAME)
	case "rules":
		return e.string(unix.NFTA_RULE_CHAIN)
	case "sets":
		if name := e.string(unix.NFTA_SET_NAME); isApart(name) {
			return name
		}
	}
	return ""
}

func isApart(set string) bool { return rules.ParseApart(set) }
