package nft

import (
	"errors"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"

	"github.com/gridmesh/gridmesh/capture/dump"
)

// errEnough ends a list that is read no further.
var errEnough = errors.New("enough")

// each asks for a list, and hands on what it has, one by one, until take has enough: so
// nothing is held, and what comes first costs no more than that. take keeps nothing of what
// it gets. Of a list that is torn it gets what was told, and dump.ErrTorn says so.
func (s *Session) each(msg int, family nftables.TableFamily, attrs []nl.Attribute, take func(family nftables.TableFamily, e *entry) error) error {
	data, err := nl.MarshalAttributes(attrs)
	if err != nil {
		return err
	}
	if err := s.dial(); err != nil {
		return err
	}
	err = dump.Each(s.raw, nl.Message{
		Header: nl.Header{Type: Message(msg), Flags: nl.Request | nl.Dump},
		Data:   append(Header(family), data...),
	}, func(m nl.Message) error {
		e, err := parseEntry(m)
		if err != nil {
			return err
		}
		return take(nftables.TableFamily(m.Data[0]), e)
	})
	switch {
	case err == nil || errors.Is(err, dump.ErrTorn): // it was told to its end
		return err
	case errors.Is(err, errEnough): // more waits in the socket, of this list alone
		_ = s.raw.Close()
		s.raw = nil
		return nil
	}
	return s.after(err)
}
