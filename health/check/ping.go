package check

import (
	"context"
	"net"
	"net/netip"
)

// ping is well where a port takes a connection.
type ping struct{ port uint16 }

// Look implements Probe.
func (p ping) Look(ctx context.Context, t Target) (string, error) {
	conn, err := dial(ctx, t, p.port)
	if err != nil {
		return "", err
	}
	return "", conn.Close()
}

func dial(ctx context.Context, t Target, port uint16) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", netip.AddrPortFrom(t.Addr, port).String())
}
