package kube

import (
	"net/netip"
	"slices"
	"sync"
	"syscall"
)

// mostServers bounds the addresses of one API server: a name may lead elsewhere each time.
const mostServers = 8

// servers are the addresses at which an API server was looked for last, the newest last.
type servers struct {
	mu   sync.Mutex
	list []netip.Addr
}

func (s *servers) note(ip netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.list, ip) {
		return
	}
	s.list = append(s.list, ip)
	s.list = s.list[max(0, len(s.list)-mostServers):]
}

func (s *servers) all() []netip.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

// noting is a Control that notes what is dialled, before another one.
func (s *servers) noting(next Control) Control {
	return func(network, address string, conn syscall.RawConn) error {
		if at, err := netip.ParseAddrPort(address); err == nil {
			s.note(at.Addr().Unmap().WithZone(""))
		}
		return next(network, address, conn)
	}
}

// Servers are the addresses at which the API server was looked for last: as the configuration has it,
// or, of a client with a Control, as its name was resolved, also where nobody answered. A few at most.
func (c *Client) Servers() []netip.Addr {
	if c.servers == nil {
		return nil
	}
	return c.servers()
}
