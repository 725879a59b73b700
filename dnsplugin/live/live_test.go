package live

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"github.com/gridmesh/gridmesh/internal/testkit"
)

func TestMain(m *testing.M) {
	// net/http lets half a second pass after a request that it refuses.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"live 127.0.0.1:8192":             "",
		"live":                            "give one address",
		"live a b":                        "give one address",
		"live 127.0.0.1:1\nlive [::1]:2":  "give one address",
		"live 127.0.0.1":                  `"127.0.0.1" is no address and port`,
		"live 127.0.0.1:8192 {\n what\n}": `unknown option "what"`,
	} {
		_, err := parse(caddy.NewTestController("dns", text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestListening(t *testing.T) {
	got := strings.Join(listening([]string{"", "0.0.0.0", "::", "169.254.20.11", "fd00::53"}, "53"), " ")
	if want := "127.0.0.1:53 127.0.0.1:53 [::1]:53 169.254.20.11:53 [fd00::53]:53"; got != want {
		t.Errorf("asked are %s, want %s", got, want)
	}
}

// It is answered here, for no cache, and nothing else is.
func TestTheQuestion(t *testing.T) {
	p := &probe{names: []string{nameIn("."), nameIn("Cluster.local.")}, next: test.NextHandler(dns.RcodeNameError, nil)}
	for question, want := range map[string]int{
		"live--gridmesh.": dns.RcodeSuccess, "LIVE--gridmesh.cluster.local.": dns.RcodeSuccess,
		"live--gridmesh.example.": dns.RcodeNameError, "a.live--gridmesh.": dns.RcodeNameError,
	} {
		rec := dnstest.NewRecorder(&test.ResponseWriter{})
		code, err := p.ServeDNS(context.Background(), rec, new(dns.Msg).SetQuestion(question, dns.TypeTXT))
		if code != want || err != nil || (rec.Msg != nil) != (want == dns.RcodeSuccess) {
			t.Errorf("%s: %d, %v, %s", question, code, err, rec.Msg)
		}
		if rec.Msg != nil && (len(rec.Msg.Answer) != 1 || rec.Msg.Answer[0].Header().Ttl != 0) {
			t.Errorf("%s: %s", question, rec.Msg)
		}
	}
}

// /livez is the answer of the server's own sockets: a process that runs and answers
// nobody is not live, and neither is one of which an address is mute.
func TestLivez(t *testing.T) {
	mute, err := net.ListenPacket("udp", "127.0.0.1:0") // its kernel takes questions, and nobody reads them
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refuse := dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) { _ = w.WriteMsg(new(dns.Msg).SetRcode(r, dns.RcodeRefused)) })
	server := &dns.Server{PacketConn: socket, Handler: refuse}
	go func() { _ = server.ActivateAndServe() }()
	defer func() { _ = server.Shutdown() }()
	answers, silent := socket.LocalAddr().String(), mute.LocalAddr().String()
	for _, tc := range []struct {
		servers []string
		code    int
		says    string
	}{
		{[]string{answers}, http.StatusOK, "answers"},
		{[]string{silent}, http.StatusServiceUnavailable, "ask " + silent},
		{[]string{answers, silent}, http.StatusServiceUnavailable, "ask " + silent},
	} {
		code, text, took := livez(t, tc.servers)
		if code != tc.code || !strings.Contains(text, tc.says) || took > 5*askTimeout {
			t.Errorf("%v: %d %q after %s", tc.servers, code, text, took)
		}
	}
}

// livez asks a probe of its own.
func livez(t *testing.T, servers []string) (code int, text string, took time.Duration) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &probe{address: free.Addr().String(), name: nameIn("."), servers: func() []string { return servers }}
	if err := p.start(); err == nil {
		t.Fatal("it listens where somebody else does")
	}
	_ = free.Close()
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.stop() }()
	begin := time.Now()
	code, text = get(t, p.address)
	return code, text, time.Since(begin)
}

// What a client may send is bounded.
func TestClientsAreBounded(t *testing.T) {
	p := &probe{address: testkit.Free(t), servers: func() []string { return nil }}
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.stop() }()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.address+"/livez", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X", strings.Repeat("x", 64<<10))
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 64 KiB: %s", answer.Status)
	}
}
