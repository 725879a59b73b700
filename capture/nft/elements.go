package nft

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
)

// elementCatchAll is NFT_SET_ELEM_CATCHALL of linux/netfilter/nf_tables.h: the
// element has no key, and every lookup finds it.
const elementCatchAll = 0x2

// Element is an element of a set as the kernel tells it.
type Element struct {
	nftables.SetElement // of which Key, IntervalEnd, Timeout and VerdictData are read

	CatchAll bool // it stands for all that no other element does
	Odd      bool // it has more than elements of ours: data, a comment, what is counted or decides whether it is found
}

// Elements reads a set. What nobody here knows makes an element odd, and is no
// error: nothing that somebody puts into a set may be in our way.
func (s *Session) Elements(set *nftables.Set) ([]Element, error) {
	msgs, err := s.ask(unix.NFT_MSG_GETSETELEM, int(nl.Dump), set.Table.Family, setAttributes(set))
	if err != nil {
		return nil, fmt.Errorf("read set %s: %w", set.Name, err)
	}
	var list []Element
	for _, m := range msgs {
		e, err := parseEntry(m)
		if err != nil {
			return nil, fmt.Errorf("read set %s: %w", set.Name, err)
		}
		list = append(list, elementsOf(e)...)
	}
	return list, nil
}

// ErrMany says that a set has more elements than were asked for.
var ErrMany = errors.New("it has more elements than are looked at")

// ElementsUpTo is Elements of a set with so many elements, or somewhat more: of a larger
// one it is ErrMany, and the rest is not read. A hundred thousand take the kernel a second.
func (s *Session) ElementsUpTo(set *nftables.Set, most int) ([]Element, error) {
	data, err := nl.MarshalAttributes(setAttributes(set))
	if err != nil {
		return nil, err
	}
	if err := s.dial(); err != nil {
		return nil, err
	}
	list, err := dump.Again(func() (list []Element, err error) {
		err = dump.Each(s.raw, nl.Message{
			Header: nl.Header{Type: Message(unix.NFT_MSG_GETSETELEM), Flags: nl.Request | nl.Dump},
			Data:   append(Header(set.Table.Family), data...),
		}, func(m nl.Message) error {
			m.Data = slices.Clone(m.Data)
			e, err := parseEntry(m)
			if err != nil {
				return err
			}
			if list = append(list, elementsOf(e)...); len(list) > most {
				return ErrMany
			}
			return nil
		})
		return list, err
	})
	if err != nil && !errors.Is(err, dump.ErrTorn) {
		_ = s.after(err) // more may wait in the socket
	}
	if err != nil {
		return nil, fmt.Errorf("read set %s: %w", set.Name, err)
	}
	return list, nil
}

// HasElements reports whether a set has any. One that is not there has none.
func (s *Session) HasElements(set *nftables.Set) (has bool, err error) {
	_, err = dump.Again(func() (struct{}, error) {
		return struct{}{}, s.each(unix.NFT_MSG_GETSETELEM, set.Table.Family, setAttributes(set), func(_ nftables.TableFamily, e *entry) error {
			if has = len(elementsOf(e)) > 0; has {
				return errEnough
			}
			return nil
		})
	})
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return false, fmt.Errorf("read set %s: %w", set.Name, err)
	}
	return has, nil
}

// ElementsOf reads the elements that a message is about.
func ElementsOf(m nl.Message) []Element {
	e, err := parseEntry(m)
	if err != nil {
		return nil
	}
	return elementsOf(e)
}

func elementsOf(e *entry) (list []Element) {
	elements, err := nl.NewAttributeDecoder(e.attrs[unix.NFTA_SET_ELEM_LIST_ELEMENTS])
	if err != nil {
		return []Element{{Odd: true}}
	}
	for elements.Next() {
		list = append(list, parseElement(elements.Bytes()))
	}
	if elements.Err() != nil { // there may be more of them
		list = append(list, Element{Odd: true})
	}
	return list
}

func parseElement(raw []byte) (e Element) {
	attrs, err := nl.NewAttributeDecoder(raw)
	if err != nil {
		return Element{Odd: true}
	}
	for attrs.Next() {
		value := attrs.Bytes()
		switch attrs.Type() {
		case unix.NFTA_SET_ELEM_KEY:
			e.Key = dataValue(value)
		case unix.NFTA_SET_ELEM_FLAGS:
			flags := bigEndian(value)
			e.IntervalEnd, e.CatchAll = flags&unix.NFT_SET_ELEM_INTERVAL_END != 0, flags&elementCatchAll != 0
			e.Odd = e.Odd || flags&^(unix.NFT_SET_ELEM_INTERVAL_END|elementCatchAll) != 0
		case unix.NFTA_SET_ELEM_TIMEOUT:
			e.Timeout = time.Duration(bigEndian(value)) * time.Millisecond
		case unix.NFTA_SET_ELEM_DATA:
			e.VerdictData, e.Odd = parseVerdict(value), true
		case unix.NFTA_SET_ELEM_EXPIRATION, unix.NFTA_SET_ELEM_PAD:
		default:
			e.Odd = true
		}
	}
	e.Odd = e.Odd || attrs.Err() != nil || len(e.Key) == 0 && !e.CatchAll
	return e
}

// dataValue is the value within NFTA_SET_ELEM_KEY.
func dataValue(raw []byte) []byte {
	attrs, err := nl.NewAttributeDecoder(raw)
	if err != nil {
		return nil
	}
	for attrs.Next() {
		if attrs.Type() == unix.NFTA_DATA_VALUE {
			return attrs.Bytes()
		}
	}
	return nil
}

func bigEndian(raw []byte) (n uint64) {
	for _, b := range raw {
		n = n<<8 | uint64(b)
	}
	return n
}

// DeleteCatchAll removes what stands for all from a set, in a transaction of its
// own: the library has no word for it.
func (s *Session) DeleteCatchAll(set *nftables.Set) error {
	flags, err := nl.MarshalAttributes([]nl.Attribute{{Type: unix.NFTA_SET_ELEM_FLAGS, Data: []byte{0, 0, 0, elementCatchAll}}})
	if err != nil {
		return err
	}
	element, err := nl.MarshalAttributes([]nl.Attribute{{Type: unix.NLA_F_NESTED | unix.NFTA_LIST_ELEM, Data: flags}})
	if err != nil {
		return err
	}
	attrs := append(setAttributes(set), nl.Attribute{Type: unix.NLA_F_NESTED | unix.NFTA_SET_ELEM_LIST_ELEMENTS, Data: element})
	if err := s.transaction(unix.NFT_MSG_DELSETELEM, set.Table.Family, attrs); err != nil {
		return fmt.Errorf("remove from set %s what stands for all: %w", set.Name, err)
	}
	return nil
}

func setAttributes(set *nftables.Set) []nl.Attribute {
	return []nl.Attribute{
		{Type: unix.NFTA_SET_ELEM_LIST_TABLE, Data: []byte(set.Table.Name + "\x00")},
		{Type: unix.NFTA_SET_ELEM_LIST_SET, Data: []byte(set.Name + "\x00")},
	}
}
