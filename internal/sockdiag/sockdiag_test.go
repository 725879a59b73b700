package sockdiag

import (
	"net"
	"net/netip"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// (Reset, marks and transparent sockets: package capture, with real packets.)
func TestList(t *testing.T) {
	tcp, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	other, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	udp, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	dialled, err := net.Dial("tcp4", tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer dialled.Close()

	conn, err := Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	server, client := netip.MustParseAddrPort(tcp.Addr().String()), netip.MustParseAddrPort(dialled.LocalAddr().String())
	for what, want := range map[string]struct {
		protocol    byte
		states      uint32
		local, peer netip.AddrPort
	}{
		"a listener":      {unix.IPPROTO_TCP, Listen, server, netip.MustParseAddrPort("0.0.0.0:0")},
		"a connection":    {unix.IPPROTO_TCP, Open, client, server},
		"a socket of UDP": {unix.IPPROTO_UDP, Closed, netip.MustParseAddrPort(udp.LocalAddr().String()), netip.MustParseAddrPort("0.0.0.0:0")},
	} {
		for _, port := range []uint16{want.local.Port(), 0} {
			list, err := conn.Both(want.protocol, want.states, port)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, s := range list {
				if port != 0 && s.Local.Port() != port {
					t.Errorf("%s: %s was asked for by port %d", what, s.Local, port)
				}
				if s.Local == want.local && s.Peer == want.peer && s.Inode != 0 && s.Family == unix.AF_INET && s.Bound && s.UID == uint32(os.Getuid()) && s.State&want.states != 0 {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%s at %s, port %d: found %d times among %+v", what, want.local, port, n, list)
			}
		}
	}
}

// Who listens at all addresses of IPv6 may have those of IPv4 besides, and says so.
func TestListensForBothFamilies(t *testing.T) {
	for network, only := range map[string]bool{"tcp": false, "tcp6": true} {
		l, err := net.Listen(network, "[::]:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		conn, err := Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		at := netip.MustParseAddrPort(l.Addr().String())
		list, err := conn.Both(unix.IPPROTO_TCP, Listen, at.Port())
		if err != nil || len(list) != 1 || list[0].Local != at || list[0].V6Only != only {
			t.Errorf("%s: %+v, %v", network, list, err)
		}
	}
}
