package capture

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/ports"
	"github.com/gridmesh/gridmesh/internal/sockdiag"
)

// Why Envoy does not serve, by who listens on its ports.
var (
	ErrNotListening = errors.New("nobody listens there, which is Envoy's (--listen-port-base)")
	// ErrStranger is a listener of somebody else: anybody in the node's network may open a port.
	ErrStranger = errors.New("which is Envoy's (--listen-port-base), and that is not Envoy")
	errAnother  = errors.New("another one listens there than before Envoy was asked")
)

// Listeners are who listens on the ports of Envoy, over TCP and in this network.
type Listeners struct {
	ports  ports.Ports
	all    []sockdiag.Socket
	agent  uint32   // whose this process is
	runsAs []uint32 // whose transparent sockets those of captured connections are
}

// Listening lists them. Nobody is dialled for that.
func Listening(p ports.Ports) (Listeners, error) {
	conn, err := sockdiag.Dial()
	if err != nil {
		return Listeners{}, err
	}
	defer conn.Close()
	all, err := conn.Both(unix.IPPROTO_TCP, sockdiag.Listen, 0)
	if err != nil {
		return Listeners{}, err
	}
	l := Listeners{ports: p, agent: ownUser()}
	for _, s := range all {
		if !slices.Contains(p.All(), s.Local.Port()) {
			continue
		}
		l.all = append(l.all, s)
		if l.captured(s) && s.Transparent {
			l.runsAs = append(l.runsAs, s.UID)
		}
	}
	return l, nil
}

// Serving is nil where Envoy has its listeners of IPv4, and else ErrNotListening or ErrStranger.
func (l Listeners) Serving() error {
	for _, port := range []uint16{l.ports.Keep(), l.ports.Plain(), l.ports.Health()} {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
		there := false
		for _, s := range l.all {
			switch {
			case !s.Hears(at):
			case !l.envoys(s):
				return fmt.Errorf("user %d listens on port %d, %w", s.UID, port, ErrStranger)
			default:
				there = true
			}
		}
		if !there {
			return fmt.Errorf("port %d: %w", port, ErrNotListening)
		}
	}
	return nil
}

// ServingStill is Serving, and an error where who answers for Envoy's health is none of
// those before: as long as a socket listens, nobody else can have its address.
func (l Listeners) ServingStill(before Listeners) error {
	if err := l.Serving(); err != nil {
		return err
	}
	for _, s := range l.all {
		if s.Local.Port() == l.ports.Health() && slices.ContainsFunc(before.all, func(was sockdiag.Socket) bool { return was.ID == s.ID }) {
			return nil
		}
	}
	return fmt.Errorf("port %d: %w", l.ports.Health(), errAnother)
}

// findings name a listener for each port that Envoy lacks for it, the lowest user's, and so
// are few whatever somebody opens.
func (l Listeners) findings(redirected bool) (list []Finding) {
	for _, port := range l.ports.All() {
		var in []uint32
		for _, s := range l.all {
			if s.Local.Port() == port && l.needed(s, redirected) && !l.envoys(s) {
				in = append(in, s.UID)
			}
		}
		if len(in) > 0 {
			list = append(list, Finding{EnvoyPorts, fmt.Sprintf("user %d listens on TCP port %d, which is Envoy's, and that is not Envoy: it cannot serve there, and the kernel serves for it, or with --datapath envoy nobody; see who it is, and end it: ss -ltnp sport = :%d; or have Envoy's ports elsewhere: --listen-port-base", slices.Min(in), port, port)})
		}
	}
	return list
}

// needed reports whether Envoy has a listener that a socket is in the way of.
func (l Listeners) needed(s sockdiag.Socket, redirected bool) bool {
	switch port := s.Local.Port(); port {
	case l.ports.Keep(), l.ports.Plain(), l.ports.Health():
		v4 := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
		return s.Hears(v4) || l.captured(s) && s.Hears(netip.AddrPortFrom(netip.IPv6Loopback(), port))
	case l.ports.RedirectKeep(), l.ports.RedirectPlain():
		return redirected // on all addresses
	}
	return false
}

// envoys reports whether a socket may be Envoy's: root's, or of the agent's own user. Envoy
// may be another's, too, who is known by its transparent sockets: the kernel lets nobody have
// one without CAP_NET_ADMIN or CAP_NET_RAW (ip(7), IP_TRANSPARENT).
func (l Listeners) envoys(s sockdiag.Socket) bool {
	if l.captured(s) {
		return mayBeEnvoys(s, l.agent)
	}
	return s.UID == 0 || s.UID == l.agent || slices.Contains(l.runsAs, s.UID)
}

// captured reports whether a socket has a port of those that tproxy leads to.
func (l Listeners) captured(s sockdiag.Socket) bool {
	return s.Local.Port() == l.ports.Keep() || s.Local.Port() == l.ports.Plain()
}

// mayBeEnvoys is envoys of a socket that is to be transparent. Old kernels do not say.
func mayBeEnvoys(s sockdiag.Socket, agent uint32) bool {
	return s.Transparent || !s.Bound && (s.UID == 0 || s.UID == agent)
}

func ownUser() uint32 { return uint32(os.Geteuid()) } //nolint:gosec // users are 32 bits

// listeningUDP reports whether each of some frontends has a socket of UDP that may be Envoy's.
func listeningUDP(frontends []netip.AddrPort) (bool, error) {
	conn, err := sockdiag.Dial()
	if err != nil {
		return false, err
	}
	defer conn.Close()
	all, err := conn.Both(unix.IPPROTO_UDP, sockdiag.Closed, 0)
	if err != nil {
		return false, err
	}
	there, agent := map[netip.AddrPort]bool{}, ownUser()
	for _, s := range all {
		if mayBeEnvoys(s, agent) {
			there[s.Local] = true
		}
	}
	return !slices.ContainsFunc(frontends, func(f netip.AddrPort) bool { return !there[f] }), nil
}
