package nft

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
)

// netlinkBuffer holds the acknowledgements of a transaction.
const netlinkBuffer = 4 << 20

// Session is how one goroutine talks to nftables. It keeps its sockets, for
// the kernel lets nobody close one before all that was deleted is gone, some
// 50 ms. After an error nobody knows which answers are still to come, and
// which commands are still to be sent: then both are left for new ones.
//
// What of nftables.Conn may fail and is used here has its twin; the rest
// collects commands.
type Session struct {
	*nftables.Conn
	raw   *nl.Conn // for questions that the library does not know; nil until asked
	lasts bool     // Conn has a socket of its own
}

// New opens nothing: until Keep there is a socket for each question.
func New() *Session { return &Session{Conn: &nftables.Conn{}} }

// Open keeps one socket for all questions, until Close.
func Open() *Session {
	s := New()
	s.Keep()
	return s
}

// Keep opens the socket that is kept, where there is none and nothing is
// collected. Where that fails the first question says so.
func (s *Session) Keep() {
	if s.lasts {
		return
	}
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(c *nl.Conn) error {
		// Refused without privileges on the host; the default then has to do.
		_ = c.SetReadBuffer(netlinkBuffer)
		_ = c.SetWriteBuffer(netlinkBuffer)
		return nil
	}))
	if err == nil {
		s.Conn, s.lasts = conn, true
	}
}

// Close lets go of the sockets. Whoever goes on has one for each question.
func (s *Session) Close() {
	_ = s.CloseLasting()
	s.lasts = false
	if s.raw != nil {
		_ = s.raw.Close()
		s.raw = nil
	}
}

// after begins anew where there was an error, and returns it.
func (s *Session) after(err error) error {
	if err == nil {
		return nil
	}
	s.Close()
	s.Conn = &nftables.Conn{}
	s.Keep()
	return err
}

// Flush sends what was collected, as one transaction.
func (s *Session) Flush() error { return s.after(s.Conn.Flush()) }

// setIDs numbers sets within a transaction. The library does so too, by a counter
// without a lock, which sessions beside each other must not share.
var setIDs atomic.Uint32

// AddSet collects.
func (s *Session) AddSet(set *nftables.Set, list []nftables.SetElement) error {
	if set.ID == 0 && !set.Anonymous {
		set.ID = setIDs.Add(1)
	}
	return s.after(s.Conn.AddSet(set, list))
}

// SetAddElements collects.
func (s *Session) SetAddElements(set *nftables.Set, list []nftables.SetElement) error {
	return s.after(s.Conn.SetAddElements(set, list))
}

// SetDeleteElements collects.
func (s *Session) SetDeleteElements(set *nftables.Set, list []nftables.SetElement) error {
	return s.after(s.Conn.SetDeleteElements(set, list))
}

// ListTablesOfFamily reads.
func (s *Session) ListTablesOfFamily(f nftables.TableFamily) ([]*nftables.Table, error) {
	list, err := s.Conn.ListTablesOfFamily(f)
	return list, s.after(err)
}

// ListChainsOfTableFamily reads.
func (s *Session) ListChainsOfTableFamily(f nftables.TableFamily) ([]*nftables.Chain, error) {
	list, err := s.Conn.ListChainsOfTableFamily(f)
	return list, s.after(err)
}

// GetSetElements reads; a set that is not there is an error.
func (s *Session) GetSetElements(set *nftables.Set) ([]nftables.SetElement, error) {
	list, err := s.Conn.GetSetElements(set)
	return list, s.after(err)
}

// GetRules reads.
func (s *Session) GetRules(t *nftables.Table, c *nftables.Chain) ([]*nftables.Rule, error) {
	list, err := s.Conn.GetRules(t, c)
	return list, s.after(err)
}

// ask sends one request and returns the answers to it, also beside dump.ErrTorn: what
// was told then is better than nothing to who looks for what is in the way.
func (s *Session) ask(msg, flags int, family nftables.TableFamily, attrs []nl.Attribute) ([]nl.Message, error) {
	data, err := nl.MarshalAttributes(attrs)
	if err != nil {
		return nil, err
	}
	if err := s.dial(); err != nil {
		return nil, err
	}
	answers, err := dump.Ask(s.raw, nl.Message{
		Header: nl.Header{Type: Message(msg), Flags: nl.Request | nl.HeaderFlags(flags)},
		Data:   append(Header(family), data...),
	})
	if errors.Is(err, dump.ErrTorn) { // and was told to its end
		return answers, err
	}
	return answers, s.after(err)
}

// transaction sends one command that the library has no word for.
func (s *Session) transaction(msg int, family nftables.TableFamily, attrs []nl.Attribute) error {
	if err := s.dial(); err != nil {
		return err
	}
	batch, err := Batch(nl.Message{Header: nl.Header{Type: Message(msg), Flags: nl.Request | nl.Acknowledge}}, family, attrs)
	if err != nil {
		return err
	}
	if _, err = s.raw.SendMessages(batch); err == nil {
		_, err = s.raw.Receive() // the acknowledgement
	}
	return s.after(err)
}

// dial opens the socket for what the library does not know.
func (s *Session) dial() error {
	if s.raw != nil {
		return nil
	}
	raw, err := nl.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	_ = raw.SetReadBuffer(netlinkBuffer) // as in Keep
	s.raw = raw
	return nil
}
