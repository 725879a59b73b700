package peer

import (
	"context"
	"net"
	"net/http"
)

// DialBy has a Peer dial otherwise, for networks in memory.
func (p *Peer) DialBy(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	p.client.Transport.(*http.Transport).DialContext = dial
}
