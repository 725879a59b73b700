package live

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/cache"
	"github.com/miekg/dns"

	"github.com/gridmesh/gridmesh/internal/testkit"
)

var _ cache.ZoneBypasser = (*probe)(nil)

// gate is a plugin behind the cache: closed, it takes questions and answers none.
type gate struct {
	closed atomic.Bool
	next   plugin.Handler
}

func (g *gate) Name() string { return "gate" }

func (g *gate) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if g.closed.Load() {
		return dns.RcodeSuccess, nil // says that it answered
	}
	return plugin.NextOrFailure(g.Name(), g.next, ctx, w, r)
}

// A server that answered a moment ago and now answers nobody is not live, whatever
// a cache before the plugin would have kept.
func TestNoCacheAnswersForTheServer(t *testing.T) {
	g := &gate{}
	plugin.Register("gate", func(c *caddy.Controller) error {
		dnsserver.GetConfig(c).AddPlugin(func(next plugin.Handler) plugin.Handler {
			g.next = next
			return g
		})
		return nil
	})
	if err := dnsserver.Register(); err != nil {
		t.Fatal(err)
	}
	if err := dnsserver.SetDirectives([]string{"cache", "gate", "live"}); err != nil {
		t.Fatal(err)
	}
	dnsserver.Quiet = true
	dnsPort, at := freePort(t), testkit.Free(t)
	corefile := fmt.Sprintf(".:%d {\n cache 30 {\n serve_stale 24h\n }\n gate\n live %s\n}\n", dnsPort, at)
	server, err := caddy.Start(caddy.CaddyfileInput{Contents: []byte(corefile), Filepath: "Corefile", ServerTypeName: "dns"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		for _, err := range server.ShutdownCallbacks() {
			t.Error(err)
		}
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	}()
	if code, text := get(t, at); code != http.StatusOK {
		t.Fatalf("a server that answers: %d %q", code, text)
	}
	g.closed.Store(true)
	if code, text := get(t, at); code != http.StatusServiceUnavailable || !strings.Contains(text, fmt.Sprintf("ask 127.0.0.1:%d", dnsPort)) {
		t.Errorf("a server that answers nobody: %d %q", code, text)
	}
	g.closed.Store(false)
	if code, text := get(t, at); code != http.StatusOK {
		t.Errorf("a server that answers again: %d %q", code, text)
	}
}

// freePort is a port that was free for both UDP and TCP.
func freePort(t *testing.T) int {
	t.Helper()
	for range 100 {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		udp, err := net.ListenPacket("udp", tcp.Addr().String())
		_ = tcp.Close()
		if err == nil {
			_ = udp.Close()
			return tcp.Addr().(*net.TCPAddr).Port
		}
	}
	t.Fatal("no port is free for both UDP and TCP")
	return 0
}

// get asks a probe.
func get(t *testing.T, address string) (code int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/livez", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}
