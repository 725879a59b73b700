package run

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/obs"
)

// Limits are how many connections a listener has at once.
type Limits struct {
	InAll  int
	OfPeer int // of one peer, where it is known (peerOf)
}

// How many that are, where nobody says. Who asks for health or metrics needs one for a
// moment, Envoy one for good; each may cost tens of kB.
const (
	mostConns  = 64
	mostOfPeer = 16
)

// unseen is the peer whose process is not seen from this PID namespace, as those of
// other containers are: there is no telling one from another.
const unseen = ""

// How long a listener waits for descriptors or memory that it lacks.
const (
	lackFirst = 5 * time.Millisecond
	lackMost  = time.Second
	lackQuiet = time.Minute // between two lines about it
)

// Bound bounds the connections of a listener. One that is too many sends the
// oldest away: its own peer's, else that of the peer who has most; of those who are
// unseen the newest, for Envoy's stays. So nobody keeps others out by holding
// connections, and nobody is kept waiting. A lack of descriptors or memory is waited
// out and logged.
func Bound(l net.Listener, log *slog.Logger) net.Listener {
	return BoundTo(l, Limits{mostConns, mostOfPeer}, log)
}

// BoundTo is Bound with limits of one's own.
func BoundTo(l net.Listener, limits Limits, log *slog.Logger) net.Listener {
	return &boundListener{Listener: l, limits: limits, lack: NewLack(log), closed: make(chan struct{})}
}

type boundListener struct {
	net.Listener
	limits Limits
	lack   *Lack
	once   sync.Once
	closed chan struct{}

	mu   sync.Mutex
	open []*boundConn // the oldest first
}

// Accept implements net.Listener.
func (l *boundListener) Accept() (net.Conn, error) {
	conn, err := l.lack.Accept(l.Listener, l.closed)
	if err != nil {
		return nil, err
	}
	c := &boundConn{Conn: conn, of: l, peer: peerOf(conn)}
	if gone := l.admit(c); gone != nil {
		_ = gone.Conn.Close()
	}
	return c, nil
}

// Lack is what keeps listeners from accepting and passes: it is waited out, and told
// once for all of them.
type Lack struct {
	log *slog.Logger

	mu   sync.Mutex
	told time.Time
}

// NewLack makes a Lack that is told to log.
func NewLack(log *slog.Logger) *Lack { return &Lack{log: log} }

// Accept accepts from a listener, and waits out what passes until closed is.
func (k *Lack) Accept(l net.Listener, closed <-chan struct{}) (net.Conn, error) {
	for pause := lackFirst; ; pause = min(2*pause, lackMost) {
		conn, err := l.Accept()
		if err == nil || !passes(err) {
			return conn, err
		}
		k.tell(err)
		select {
		case <-time.After(pause):
		case <-closed:
			return nil, net.ErrClosed
		}
	}
}

func passes(err error) bool {
	return slices.ContainsFunc([]error{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.ECONNABORTED, unix.EINTR},
		func(lack error) bool { return errors.Is(err, lack) })
}

// tell logs a lack, and not again for a while.
func (k *Lack) tell(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := time.Now(); k.told.IsZero() || now.Sub(k.told) > lackQuiet {
		k.told = now
		k.log.Warn("connections wait until there is room for them", obs.KeyErr, err)
	}
}

// admit notes a connection, and returns the one that it sends away.
func (l *boundListener) admit(c *boundConn) (gone *boundConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	peers := make([]string, len(l.open))
	for i, o := range l.open {
		peers[i] = o.peer
	}
	if i := l.limits.surplus(peers, c.peer); i >= 0 {
		gone = l.open[i]
		l.open = slices.Delete(l.open, i, i+1)
	}
	l.open = append(l.open, c)
	return gone
}

func (l *boundListener) forget(c *boundConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.open, c); i >= 0 {
		l.open = slices.Delete(l.open, i, i+1)
	}
}

// Close implements net.Listener.
func (l *boundListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// surplus returns which connection makes room for another one of peer, of those
// that are open, by their peers and the oldest first; -1 for none.
func (l Limits) surplus(open []string, peer string) int {
	held := map[string]int{}
	for _, p := range open {
		held[p]++
	}
	switch {
	case held[peer] >= l.OfPeer && peer != unseen:
		return slices.Index(open, peer)
	case len(open) < l.InAll:
		return -1
	}
	first := 0
	for i, p := range open {
		if held[p] > held[open[first]] {
			first = i
		}
	}
	if open[first] == unseen {
		for i, p := range open {
			if p == unseen {
				first = i
			}
		}
	}
	return first
}

// boundConn is known to its listener until it is closed.
type boundConn struct {
	net.Conn
	of   *boundListener
	peer string
}

// Close implements net.Conn.
func (c *boundConn) Close() error {
	c.of.forget(c)
	return c.Conn.Close()
}

// CloseWrite lets net/http end an answer before it closes, so that who still
// sends reads it.
func (c *boundConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// peerOf is whose a connection is: an address, of other machines' IPv6 the network
// that one machine may have for itself; of a Unix socket a process.
func peerOf(c net.Conn) string {
	if tcp, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		addr := tcp.AddrPort().Addr().Unmap()
		if own, ok := c.LocalAddr().(*net.TCPAddr); ok && own.AddrPort().Addr().Unmap() == addr {
			return addr.String() // the kubelet's is this machine's own
		}
		return PeerAt(addr)
	}
	if socket, ok := c.(syscall.Conn); ok {
		if raw, err := socket.SyscallConn(); err == nil {
			return processOf(raw)
		}
	}
	return unseen
}

// PeerAt is whom an address of another machine counts for: of IPv6 the network that one machine
// may have for itself.
func PeerAt(addr netip.Addr) string {
	addr = addr.Unmap()
	if addr.Is4() {
		return addr.String()
	}
	network, _ := addr.Prefix(64)
	return network.String()
}

func processOf(raw syscall.RawConn) (peer string) {
	_ = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil && cred.Pid != 0 { // else it is of another PID namespace
			peer = fmt.Sprint("process ", cred.Pid)
		}
	})
	return peer
}
