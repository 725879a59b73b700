package peer_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// silence is after how long who dials a dead node gives up.
const silence = 10 * time.Second

// lan is a network in memory, whose time is that of a synctest bubble.
type lan struct {
	mu        sync.Mutex
	listeners map[netip.AddrPort]*lanListener
	dead      map[netip.Addr]bool
}

func newLAN() *lan {
	return &lan{listeners: map[netip.AddrPort]*lanListener{}, dead: map[netip.Addr]bool{}}
}

// kill has a node say nothing, and hear nothing, from now on; or again.
func (n *lan) kill(a netip.Addr, dead bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dead[a] = dead
}

// reaches reports whether both nodes are on the network.
func (n *lan) reaches(from, to netip.Addr) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.dead[from] && !n.dead[to]
}

func (n *lan) listen(at netip.AddrPort) net.Listener {
	l := &lanListener{at: at, conns: make(chan net.Conn), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners[at] = l
	return l
}

// dialFrom dials as a node does: who is dead says nothing.
func (n *lan) dialFrom(from netip.Addr) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return nil, err
		}
		n.mu.Lock()
		l := n.listeners[to]
		n.mu.Unlock()
		if !n.reaches(from, to.Addr()) || l == nil {
			select { // a transport's own context does not end with its request's
			case <-ctx.Done():
			case <-time.After(silence):
			}
			return nil, os.ErrDeadlineExceeded
		}
		near, far := net.Pipe()
		select {
		case l.conns <- lanConn{far, to, netip.AddrPortFrom(from, 40000)}:
			return lanConn{near, netip.AddrPortFrom(from, 40000), to}, nil
		case <-l.closed:
			return nil, net.ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

type lanListener struct {
	at     netip.AddrPort
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// Accept implements net.Listener.
func (l *lanListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *lanListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *lanListener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.at) }

type lanConn struct {
	net.Conn
	local, remote netip.AddrPort
}

// LocalAddr implements net.Conn.
func (c lanConn) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(c.local) }

// RemoteAddr implements net.Conn.
func (c lanConn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.remote) }
