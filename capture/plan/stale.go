package plan

import (
	"net/netip"

	"github.com/gridmesh/gridmesh/topology"
)

// Dialled is a connection that a client has open to a frontend.
type Dialled struct {
	Client   netip.Addr
	Frontend netip.AddrPort
}

// Conn is a connection of Envoy to an endpoint.
type Conn struct{ Local, Endpoint netip.AddrPort }

// Stale picks the connections to endpoints that are withheld from this node,
// because it or the endpoint's node moved, or a Service was closed.
//
// Nothing says which client's connection an endpoint's belongs to. It is told
// by the client's address, which is kept or else the node's: a connection is
// stale when one of the frontends that this client has open withholds its
// endpoint and none of them offers it.
func Stale(cfg Config, open []Dialled, upstream []Conn, access func(frontend, endpoint netip.AddrPort) topology.Access) []Conn {
	shown := func(ip netip.Addr) netip.Addr {
		if cfg.KeepsSource(ip) {
			return ip
		}
		return netip.Addr{} // as one of the node's own
	}
	frontends := map[netip.Addr]map[netip.AddrPort]bool{}
	for _, d := range open {
		who := shown(d.Client)
		if frontends[who] == nil {
			frontends[who] = map[netip.AddrPort]bool{}
		}
		frontends[who][d.Frontend] = true
	}
	var stale []Conn
	for _, c := range upstream {
		worst := topology.AccessUnrelated
		for f := range frontends[shown(c.Local.Addr())] {
			s := access(f, c.Endpoint)
			if s == topology.AccessAllowed {
				worst = s
				break
			}
			worst = max(worst, s)
		}
		if worst == topology.AccessDenied {
			stale = append(stale, c)
		}
	}
	return stale
}
