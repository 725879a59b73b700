package capture

import (
	"fmt"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// netlinkBuffer holds the acknowledgements of a transaction.
const netlinkBuffer = 4 << 20

// session is how one goroutine talks to nftables. It keeps its sockets, for
// the kernel lets nobody close one before all that was deleted is gone, some
// 50 ms. After an error nobody knows which answers are still to come, and
// which commands are still to be sent: then both are left for new ones.
//
// What of nftables.Conn may fail and is used here has its twin; the rest
// collects commands.
type session struct {
	*nftables.Conn
	raw   *nl.Conn // for questions that the library does not know; nil until asked
	lasts bool     // Conn has a socket of its own
}

// newSession opens nothing: until keep there is a socket for each question.
func newSession() *session { return &session{Conn: &nftables.Conn{}} }

func openSession() *session {
	s := newSession()
	s.keep()
	return s
}

// keep opens the socket that is kept, where there is none and nothing is
// collected. Where that fails the first question says so.
func (s *session) keep() {
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

// close lets go of the sockets. Whoever goes on has one for each question.
func (s *session) close() {
	_ = s.CloseLasting()
	s.lasts = false
	if s.raw != nil {
		_ = s.raw.Close()
		s.raw = nil
	}
}

// after begins anew where there was an error, and returns it.
func (s *session) after(err error) error {
	if err == nil {
		return nil
	}
	s.close()
	s.Conn = &nftables.Conn{}
	s.keep()
	return err
}

// Flush sends what was collected, as one transaction.
func (s *session) Flush() error { return s.after(s.Conn.Flush()) }

// AddSet collects.
func (s *session) AddSet(set *nftables.Set, list []nftables.SetElement) error {
	return s.after(s.Conn.AddSet(set, list))
}

// SetAddElements collects.
func (s *session) SetAddElements(set *nftables.Set, list []nftables.SetElement) error {
	return s.after(s.Conn.SetAddElements(set, list))
}

// SetDeleteElements collects.
func (s *session) SetDeleteElements(set *nftables.Set, list []nftables.SetElement) error {
	return s.after(s.Conn.SetDeleteElements(set, list))
}

// ListTablesOfFamily reads.
func (s *session) ListTablesOfFamily(f nftables.TableFamily) ([]*nftables.Table, error) {
	list, err := s.Conn.ListTablesOfFamily(f)
	return list, s.after(err)
}

// ListChains reads.
func (s *session) ListChains() ([]*nftables.Chain, error) {
	list, err := s.Conn.ListChains()
	return list, s.after(err)
}

// ListChainsOfTableFamily reads.
func (s *session) ListChainsOfTableFamily(f nftables.TableFamily) ([]*nftables.Chain, error) {
	list, err := s.Conn.ListChainsOfTableFamily(f)
	return list, s.after(err)
}

// GetSetElements reads; a set that is not there is an error.
func (s *session) GetSetElements(set *nftables.Set) ([]nftables.SetElement, error) {
	list, err := s.Conn.GetSetElements(set)
	return list, s.after(err)
}

// GetRules reads.
func (s *session) GetRules(t *nftables.Table, c *nftables.Chain) ([]*nftables.Rule, error) {
	list, err := s.Conn.GetRules(t, c)
	return list, s.after(err)
}

// ask sends one request and returns the answers to it.
func (s *session) ask(msg, flags int, family nftables.TableFamily, attrs []nl.Attribute) ([]nl.Message, error) {
	data, err := nl.MarshalAttributes(attrs)
	if err != nil {
		return nil, err
	}
	if s.raw == nil {
		if s.raw, err = nl.Dial(unix.NETLINK_NETFILTER, nil); err != nil {
			s.raw = nil
			return nil, fmt.Errorf("open nftables: %w", err)
		}
	}
	answers, err := s.raw.Execute(nl.Message{
		Header: nl.Header{Type: nftMessage(msg), Flags: nl.Request | nl.HeaderFlags(flags)},
		Data:   append(nfgenmsg(family), data...),
	})
	return answers, s.after(err)
}
