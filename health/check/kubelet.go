package check

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// kubelet is well where the kubelet's read-only port says so (--read-only-port, which most
// clusters have off).
type kubelet struct{ port uint16 }

// Look implements Probe.
func (k kubelet) Look(ctx context.Context, t Target) (string, error) {
	conn, err := dial(ctx, t, k.port)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	says, err := healthz(ctx, conn, "")
	if err == nil && says.status != http.StatusOK {
		err = says.err()
	}
	return "", err
}

// answer is a kubelet's.
type answer struct {
	status int
	body   string // its beginning
}

func (a answer) err() error {
	return fmt.Errorf("/healthz answers %d: %.200q", a.status, a.body)
}

// mostAnswer is what is read of one: /healthz says ok, or a line for each check.
const mostAnswer = 16 << 10

// healthz asks over a connection, which has no other use.
func healthz(ctx context.Context, conn net.Conn, token string) (a answer, err error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+conn.RemoteAddr().String()+"/healthz", nil)
	if err != nil {
		return a, err
	}
	req.Close = true
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if err := req.Write(conn); err != nil {
		return a, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(io.LimitReader(conn, mostAnswer)), req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	a.status = resp.StatusCode
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // its status is enough
	a.body = strings.TrimSpace(string(body))
	return a, nil
}
