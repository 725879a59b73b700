package ours

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gridmesh/gridmesh/health/peer"
	"github.com/gridmesh/gridmesh/health/vote"
)

// counted is a listener that counts what goes over its connections.
type counted struct {
	net.Listener
	in, out *atomic.Int64
}

func (l counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return countedConn{c, l.in, l.out}, err
}

type countedConn struct {
	net.Conn
	in, out *atomic.Int64
}

func (c countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.in.Add(int64(n))
	return n, err
}

func (c countedConn) Write(b []byte) (int, error) {
	c.out.Add(int64(len(b))) // before who waits for it goes on
	return c.Conn.Write(b)
}

// node answers as it is told.
type node struct {
	reply   vote.Reply
	results []vote.Result
}

func (n *node) Report(context.Context, vote.Reported) vote.Reply { return n.reply }
func (n *node) Probe(context.Context, []string) []vote.Result    { return n.results }
func (n *node) Adopt(context.Context, string, []peer.Member)     {}
func (n *node) Elsewhere(context.Context, string, netip.Addr)    {}
func (n *node) Local() map[string]bool                           { return nil }
func name(i int) string                                          { return fmt.Sprintf("node-%04d", i) }
func newPeer(t *testing.T, self string, n *node, u peer.Unit) *peer.Peer {
	cfg := peer.Default()
	cfg.Port = netip.MustParseAddrPort(listening).Port()
	p, err := peer.New(cfg, n, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	u.Self = self
	p.SetUnit(u)
	if err := p.SetKeys([]byte("0123456789abcdef0123456789abcdef")); err != nil {
		t.Fatal(err)
	}
	return p
}

// listening is where the one that is asked listens.
var listening string

// What the simulator says that messages weigh is what two real peers send over a socket.
func TestWeights(t *testing.T) {
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listening = socket.Addr().String()
	u := peer.Unit{View: "0123456789abcdef", Addrs: map[string][]netip.Addr{
		name(0): {netip.MustParseAddr("127.0.0.2")}, name(1): {netip.MustParseAddr("127.0.0.1")},
	}, UIDs: map[string]string{}, Live: true}
	for i := range 102 {
		u.UIDs[name(i)] = fmt.Sprintf("01234567-89ab-cdef-0123-456789ab%04d", i)
	}
	var names []string
	for i := 2; i < 102; i++ {
		names = append(names, name(i))
		u.Addrs[name(i)] = []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})}
	}
	asked := &node{}
	there, here := newPeer(t, name(1), asked, u), newPeer(t, name(0), &node{}, u)
	var in, out atomic.Int64
	server := &httptest.Server{Listener: counted{socket, &in, &out}, Config: &http.Server{Handler: there.Handler(), ReadHeaderTimeout: time.Second}}
	server.Start()
	defer server.Close()
	if _, err := here.Report(t.Context(), name(1), vote.Reported{}); err != nil { // it learns the other one's clock
		t.Fatal(err)
	}
	hold := func(what string, request, reply int, send func() error) {
		t.Helper()
		in.Store(0)
		out.Store(0)
		if err := send(); err != nil {
			t.Fatal(err)
		}
		near(t, what, request, in.Load())
		near(t, "the reply to "+what, reply, out.Load())
	}
	for _, n := range []int{0, 10, 100} {
		results := make([]vote.Result, n)
		for i := range results {
			results[i] = vote.Result{Node: names[i], Answer: vote.Yes}
		}
		report := vote.Reported{Results: results, Up: true, Hears: n > 0}
		asked.results = results
		for _, asked.reply = range []vote.Reply{{}, {Ups: names[:min(3, n)], Leader: name(7), Age: 12 * time.Second}, {Leads: true, Dead: names[:n]}} {
			hold(fmt.Sprintf("a report about %d", n), reportBytes(report), replyBytes(asked.reply), func() error {
				_, err := here.Report(t.Context(), name(1), report)
				return err
			})
		}
		hold(fmt.Sprintf("a question about %d", n), questionBytes(names[:n]), answerBytes(results), func() error {
			_, err := here.Ask(t.Context(), name(1), names[:n])
			return err
		})
	}
}

// near holds a weight against the real one; times and lengths have a digit more or less.
func near(t *testing.T, what string, say int, is int64) {
	t.Helper()
	if math.Abs(float64(say)-float64(is)) > 0.03*float64(is) {
		t.Errorf("%s weighs %d bytes, and the simulator says %d", what, is, say)
	}
}
