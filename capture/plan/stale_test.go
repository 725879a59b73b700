package plan

import (
	"net/netip"
	"testing"

	"github.com/gridmesh/gridmesh/topology"
)

func TestStale(t *testing.T) {
	ap := netip.MustParseAddrPort
	near, far := ap("10.244.0.9:80"), ap("10.244.9.9:80")
	closed, open, other := ap("10.96.0.1:80"), ap("10.96.0.2:80"), ap("10.96.0.3:80")
	access := func(frontend, endpoint netip.AddrPort) topology.Access {
		switch {
		case frontend == closed && endpoint == far:
			return topology.AccessDenied
		case frontend == other:
			return topology.AccessUnrelated
		}
		return topology.AccessAllowed
	}
	pod, host, elsewhere := netip.MustParseAddr("10.244.0.3"), netip.MustParseAddr("10.20.0.1"), netip.MustParseAddr("10.244.8.8")
	for name, tc := range map[string]struct {
		open     []Dialled
		upstream Conn
		stale    bool
	}{
		"a pod's, withheld": {[]Dialled{{pod, closed}}, Conn{ap("10.244.0.3:999"), far}, true},
		"a pod's, near":     {[]Dialled{{pod, closed}}, Conn{ap("10.244.0.3:999"), near}, false},
		"another pod's":     {[]Dialled{{netip.MustParseAddr("10.244.0.4"), closed}}, Conn{ap("10.244.0.3:999"), far}, false},
		"a pod's that another frontend offers too":  {[]Dialled{{pod, closed}, {pod, open}}, Conn{ap("10.244.0.3:999"), far}, false},
		"a pod's that another frontend knows not":   {[]Dialled{{pod, other}, {pod, closed}}, Conn{ap("10.244.0.3:999"), far}, true},
		"the host's, withheld":                      {[]Dialled{{host, closed}}, Conn{ap("10.20.0.1:999"), far}, true},
		"that of a client whose source is not kept": {[]Dialled{{elsewhere, closed}}, Conn{ap("10.20.0.1:999"), far}, true},
		"one without a client":                      {nil, Conn{ap("10.20.0.1:999"), far}, false},
	} {
		if got := Stale(config(), tc.open, []Conn{tc.upstream}, access); (len(got) == 1) != tc.stale {
			t.Errorf("%s: %v, want stale: %v", name, got, tc.stale)
		}
	}
}
