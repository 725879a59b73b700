package check

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"time"
)

// kubeletAuth is well where the kubelet's own port says so, or answers but not to us.
type kubeletAuth struct {
	port        uint16
	credentials Credentials
}

// Look implements Probe. A kubelet that is to be told who asks has the API server confirm
// it, and while that is away it tries for longer than anybody waits; so half of the time is
// left to ask once more as nobody, which it answers by itself.
func (k kubeletAuth) Look(ctx context.Context, t Target) (string, error) {
	shown, err := k.credentials.load()
	if !shown.some() {
		note, failed := k.ask(ctx, t, shown)
		return join(note, err), failed
	}
	half := ctx
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		half, cancel = context.WithDeadline(ctx, end.Add(-time.Until(end)/2))
		defer cancel()
	}
	note, failed := k.ask(half, t, shown)
	if failed != nil && ended(half) && !ended(ctx) {
		note, failed = k.ask(ctx, t, credentials{})
	}
	return join(note, err), failed
}

func (k kubeletAuth) ask(ctx context.Context, t Target, shown credentials) (string, error) {
	raw, err := dial(ctx, t, k.port)
	if err != nil {
		return "", err
	}
	defer raw.Close()
	conn, token, note, err := shown.handshake(ctx, raw, t)
	if err != nil {
		return "", err
	}
	says, err := healthz(ctx, conn, token)
	switch {
	case err != nil:
		return "", err
	case says.status == http.StatusOK:
		return note, nil
	case says.asksBack():
		return strings.TrimPrefix(note+"; the kubelet answers, but not to who asks: "+says.err().Error(), "; "), nil
	}
	return "", says.err()
}

// asksBack reports whether a kubelet lives, but does not say how it is to who asks: it does
// not know him, refuses him, or has nobody to ask about him (pkg/kubelet/server/server.go,
// InstallAuthFilter).
func (a answer) asksBack() bool {
	return a.status == http.StatusUnauthorized || a.status == http.StatusForbidden ||
		a.status == http.StatusInternalServerError && strings.HasPrefix(a.body, "Authorization error")
}

func join(note string, err error) string {
	switch {
	case err == nil:
		return note
	case note == "":
		return err.Error()
	}
	return err.Error() + "; " + note
}

// handshake makes a connection one of TLS, and says which token may be shown there. That a
// kubelet's certificate is not known, or has expired while the cloud was away, does not make
// the node ill: it is not shown a token.
func (c credentials) handshake(ctx context.Context, raw net.Conn, t Target) (conn net.Conn, token, note string, err error) {
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS12,
		// #nosec G402 -- who answers is looked at below, before a secret is shown to him
		InsecureSkipVerify: true,
	}
	if c.cert != nil {
		cfg.Certificates = []tls.Certificate{*c.cert}
	}
	secured := tls.Client(raw, cfg)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, "", "", err
	}
	if c.token == "" {
		return secured, "", "", nil
	}
	if why := c.unknown(secured.ConnectionState(), t); why != "" {
		return secured, "", "no token was shown: " + why, nil
	}
	return secured, c.token, "", nil
}
