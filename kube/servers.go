package kube

import (
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
)

// mostServers bounds the addresses of one API server: a name may lead elsewhere each time.
const mostServers = 8

// servers are the addresses from which an API server answered since they were taken, the newest last.
type servers struct {
	mu   sync.Mutex
	list []netip.Addr
}

func (s *servers) note(ip netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.list); n > 0 && s.list[n-1] == ip {
		return
	}
	s.list = append(slices.DeleteFunc(s.list, func(had netip.Addr) bool { return had == ip }), ip)
	s.list = s.list[max(0, len(s.list)-mostServers):]
}

func (s *servers) take() []netip.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.list
	s.list = nil
	return list
}

// sources notes from where answers come: whoever is dialled alone may be somebody else, by a wrong
// name or configuration.
type sources struct {
	next http.RoundTripper
	from *servers
}

// RoundTrip implements http.RoundTripper.
func (a *sources) RoundTrip(r *http.Request) (*http.Response, error) {
	var at atomic.Value
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { at.Store(info.Conn.RemoteAddr().String()) }}
	resp, err := a.next.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if err != nil {
		return resp, err
	}
	if address, ok := at.Load().(string); ok {
		if from, err := netip.ParseAddrPort(address); err == nil {
			a.from.note(from.Addr().Unmap().WithZone(""))
		}
	}
	return resp, nil
}

// Servers are the addresses from which the API server answered since this was asked last, or who stands before it,
// the newest last. A few at most, and none where nobody answered.
func (c *Client) Servers() []netip.Addr {
	if c.servers == nil {
		return nil
	}
	return c.servers()
}
