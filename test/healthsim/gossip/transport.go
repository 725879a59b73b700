package gossip

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/gridmesh/gridmesh/test/healthsim/sim"
)

var errUnreachable = errors.New("no connection in time")

// transport implements memberlist.Transport in the simulated network.
type transport struct{ *member }

// FinalAdvertiseAddr implements memberlist.Transport.
func (t *transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return ip(t.node), port, nil
}

// WriteTo implements memberlist.Transport: it sends a packet. An agent that stands still has
// it sent when it goes on.
func (t *transport) WriteTo(b []byte, addr string) (time.Time, error) {
	text, to := append([]byte(nil), b...), nodeAt(addr)
	t.u.live.Do(func(w *sim.World) {
		if to < 0 || to >= w.Len() || !w.Runs(t.node, t.life) {
			return
		}
		w.After(t.node, 0, func() {
			w.Send(t.node, to, len(text), func() { t.u.members[to].got(text, t.node) })
		})
	})
	return time.Now(), nil
}

// got takes a packet, where there is room.
func (m *member) got(text []byte, from int) {
	select {
	case m.packets <- &memberlist.Packet{Buf: text, From: &net.UDPAddr{IP: ip(from), Port: port}, Timestamp: time.Now()}:
	default:
	}
}

// PacketCh implements memberlist.Transport.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh implements memberlist.Transport.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// Shutdown implements memberlist.Transport.
func (t *transport) Shutdown() error { return nil }

// DialTimeout implements memberlist.Transport.
func (t *transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	to, after, ok := nodeAt(addr), timeout, false
	t.u.live.Do(func(w *sim.World) {
		if to >= 0 && to < w.Len() && w.Runs(t.node, t.life) {
			after, ok = w.Dial(t.node, to, timeout)
		}
	})
	if !ok {
		after = timeout
	}
	time.Sleep(after)
	if !ok {
		return nil, errUnreachable
	}
	here, there := net.Pipe()
	t.u.live.Do(func(w *sim.World) {
		w.After(to, 0, func() {
			select {
			case t.u.members[to].streams <- &stream{Conn: there, u: t.u, from: to, to: t.node, answers: true}:
			default:
				there.Close()
			}
		})
	})
	return &stream{Conn: here, u: t.u, from: t.node, to: to}, nil
}

// stream is a connection whose bytes are counted.
type stream struct {
	net.Conn
	u        *Unit
	from, to int
	answers  bool
	first    sync.Once
}

// Write implements net.Conn.
func (s *stream) Write(b []byte) (int, error) {
	n, err := s.Conn.Write(b)
	s.u.live.Do(func(w *sim.World) {
		if s.answers {
			s.first.Do(func() { w.Answered(s.from, s.to) })
		}
		w.Streamed(s.from, s.to, n)
	})
	return n, err
}

// RemoteAddr implements net.Conn.
func (s *stream) RemoteAddr() net.Addr { return &net.TCPAddr{IP: ip(s.to), Port: port} }
