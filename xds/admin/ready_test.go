package admin

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"
)

// Nobody listens, somebody who says nothing, one that does not serve, and one
// that does.
func TestReady(t *testing.T) {
	port := func(addr net.Addr) uint16 { return netip.MustParseAddrPort(addr.String()).Port() }
	ask := func(port uint16, patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return Ready(ctx, port)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if ask(port(l.Addr()), 100*time.Millisecond) == nil {
		t.Error("one that hangs serves")
	}
	l.Close()
	if ask(port(l.Addr()), time.Minute) == nil {
		t.Error("one that is absent serves")
	}
	status := http.StatusServiceUnavailable
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/ready" {
			status = http.StatusNotFound
		}
		w.WriteHeader(status)
	}))
	defer s.Close()
	if ask(port(s.Listener.Addr()), time.Minute) == nil {
		t.Error("503 is taken for yes")
	}
	status = http.StatusOK
	if err := ask(port(s.Listener.Addr()), time.Minute); err != nil {
		t.Error(err)
	}
	away := httptest.NewServer(http.RedirectHandler(s.URL+"/ready", http.StatusFound))
	defer away.Close()
	if ask(port(away.Listener.Addr()), time.Minute) == nil {
		t.Error("another one's word is taken, to whom it was sent")
	}
}
