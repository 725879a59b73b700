package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

// theGate is in the one server block of a test whose Corefile has it.
var theGate = &gate{}

var register = sync.OnceValue(func() error {
	dnsserver.Quiet = true
	plugin.Register("gate", func(c *caddy.Controller) error {
		dnsserver.GetConfig(c).AddPlugin(func(next plugin.Handler) plugin.Handler {
			theGate.next = next
			return theGate
		})
		return nil
	})
	return errors.Join(dnsserver.Register(), dnsserver.SetDirectives([]string{"cache", "gate", "live"}))
})

// serve starts CoreDNS with a Corefile.
func serve(t *testing.T, corefile string) {
	t.Helper()
	if err := register(); err != nil {
		t.Fatal(err)
	}
	server, err := caddy.Start(caddy.CaddyfileInput{Contents: []byte(corefile), Filepath: "Corefile", ServerTypeName: "dns"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		theGate.closed.Store(false)
		for _, err := range server.ShutdownCallbacks() {
			t.Error(err)
		}
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	answers(t, server)
}

// answers waits until a server has begun to serve: CoreDNS stops no listener that
// it has not got round to.
func answers(t *testing.T, server *caddy.Instance) {
	t.Helper()
	question := new(dns.Msg).SetQuestion("nobody.", dns.TypeA)
	for _, s := range server.Servers() {
		for _, network := range []string{"udp", "tcp"} {
			client := dns.Client{Net: network, Timeout: time.Minute}
			if _, _, err := client.ExchangeContext(t.Context(), question, s.Addr().String()); err != nil {
				t.Errorf("%s %s: %v", network, s.Addr(), err)
			}
		}
	}
}

// A server that answered a moment ago and now answers nobody is not live, whatever
// a cache before the plugin would have kept.
func TestNoCacheAnswersForTheServer(t *testing.T) {
	dnsPort, at := testkit.FreePort(t), testkit.Free(t)
	serve(t, fmt.Sprintf(".:%d {\n cache 30 {\n serve_stale 24h\n }\n gate\n live %s\n}\n", dnsPort, at))
	if code, text := get(t, at); code != http.StatusOK {
		t.Fatalf("a server that answers: %d %q", code, text)
	}
	theGate.closed.Store(true)
	if code, text := get(t, at); code != http.StatusServiceUnavailable || !strings.Contains(text, fmt.Sprintf("ask 127.0.0.1:%d", dnsPort)) {
		t.Errorf("a server that answers nobody: %d %q", code, text)
	}
	theGate.closed.Store(false)
	if code, text := get(t, at); code != http.StatusOK {
		t.Errorf("a server that answers again: %d %q", code, text)
	}
}

// Another server block at the same address has no part in it, whatever its zone:
// one that forwards to a cloud that is gone is no reason to start the server again.
func TestTheBlockIsAsked(t *testing.T) {
	for name, corefile := range map[string]string{
		"another of a nearer zone": "internal:%[1]d {\n gate\n}\n.:%[1]d {\n live %[2]s\n}\n",
		"another of every zone":    ".:%[1]d {\n gate\n}\ncluster.local:%[1]d {\n live %[2]s\n}\n",
		"two zones of its own":     ".:%[1]d {\n gate\n}\nCluster.local:%[1]d 10.0.0.0/8:%[1]d {\n cache\n live %[2]s\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			dnsPort, at := testkit.FreePort(t), testkit.Free(t)
			serve(t, fmt.Sprintf(corefile, dnsPort, at))
			theGate.closed.Store(true)
			for range 4 { // each zone of a block has a probe
				if code, text := get(t, at); code != http.StatusOK {
					t.Errorf("%d %q", code, text)
				}
			}
		})
	}
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
