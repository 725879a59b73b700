package live

import (
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"github.com/gridmesh/gridmesh/internal/testkit"
)

// A flood over UDP fills a socket, and what is asked there is lost: of the first
// question, or of all. That is no reason to start a server again that answers over
// TCP; a socket that is gone, and silence over both, are.
func TestLostDatagrams(t *testing.T) {
	const all = 1 << 30
	for name, tc := range map[string]struct {
		lose map[string]int // how many questions, by how they are asked; none is served where it is not there
		code int
	}{
		"the first":                    {map[string]int{"udp": 1}, http.StatusOK},
		"all, and over TCP it answers": {map[string]int{"udp": all, "tcp": 0}, http.StatusOK},
		"all":                          {map[string]int{"udp": all, "tcp": all}, http.StatusServiceUnavailable},
		"no socket for UDP":            {map[string]int{"tcp": 0}, http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			address := net.JoinHostPort("127.0.0.1", strconv.Itoa(testkit.FreePort(t)))
			for network, lose := range tc.lose {
				loses(t, network, address, lose)
			}
			code, text, took := livez(t, []string{address})
			if code != tc.code || code != http.StatusOK && !strings.Contains(text, "ask "+address) {
				t.Errorf("%d %q after %s", code, text, took)
			}
		})
	}
}

// loses serves DNS without an answer for the first questions.
func loses(t *testing.T, network, address string, lose int) {
	t.Helper()
	var asked atomic.Int64
	started, ended := make(chan struct{}), make(chan error, 1)
	server := &dns.Server{Net: network, Addr: address, NotifyStartedFunc: func() { close(started) }}
	server.Handler = dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		if asked.Add(1) > int64(lose) {
			_ = w.WriteMsg(new(dns.Msg).SetReply(r))
		}
	})
	go func() { ended <- server.ListenAndServe() }()
	select {
	case <-started:
	case err := <-ended:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Shutdown(); err != nil {
			t.Error(err)
		}
		<-ended
	})
}
