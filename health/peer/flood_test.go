package peer

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/health/vote"
)

// floods are what anybody may send, whose packets bear a node's address: pods behind node ports do.
var floods = map[string]recorded{
	"not signed": {http.MethodGet, "/localinfo", "", nil},
	"forged":     {http.MethodPut, pathResult, strings.Repeat("0", 64), []byte(`{"from":"a","to":"b"}`)},
	"no hex":     {http.MethodPut, pathResult, "x", nil},
	"too large":  {http.MethodPost, pathProbe, strings.Repeat("0", 64), make([]byte, 2*mostRequest)},
}

// flood sends to b as long as it is looked at. No time goes by from then on: nothing is forgotten.
func (l *lab) flood(from netip.Addr, r recorded) {
	l.t.Helper()
	now := time.Now()
	l.still.CompareAndSwap(nil, &now)
	for range 5 * burstPerSource {
		if status, _ := l.put(from, "b", r); status == http.StatusTooManyRequests {
			return
		}
	}
	l.t.Fatal("all of it is looked at")
}

// Who sends from a node's address and has no key silences no node, that one least of all; and
// people are told.
func TestAFloodFromANodesAddress(t *testing.T) {
	for name, junk := range floods {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, nil, "a", "b", "c")
			l.must("a", "b")
			l.flood(l.addr("a"), junk)
			for range 3 {
				l.must("a", "b")
				l.must("c", "b")
				if got, err := l.nodes["a"].p.Ask(t.Context(), "b", []string{"c"}); err != nil || len(got) != 1 {
					t.Errorf("a asks b: %v, %v", got, err)
				}
				if status, _ := l.put(l.addr("a"), "b", junk); status != http.StatusTooManyRequests {
					t.Errorf("the flood goes on: %d", status)
				}
			}
			if n := l.nodes["b"].refused(rate); n != 4 {
				t.Errorf("%d are counted", n)
			}
			if n := l.log.Count("reason=rate"); n != 1 || l.log.Count("node=a addr="+l.addr("a").String()+" reason=rate") != 1 {
				t.Errorf("it is told %d times: %s", n, l.log.String())
			}
			l.nodes["b"].shift.Add(int64(time.Minute))
			if status, _ := l.put(l.addr("a"), "b", junk); status == http.StatusTooManyRequests {
				t.Error("it is not forgotten")
			}
		})
	}
}

// A node that starts anew amid the flood learns the time of others all the same.
func TestAStartAmidAFlood(t *testing.T) {
	l := newLab(t, nil, "a", "b")
	for _, junk := range floods {
		l.flood(l.addr("a"), junk)
	}
	l.nodes["a"].stop()
	l.start("a")
	l.must("a", "b")
	if n := l.nodes["b"].refused(clockOff); n != 1 {
		t.Errorf("%d are refused for their clock", n)
	}
}

// Where all are behind NAT there is no telling who floods: what is signed is heard.
func TestAFloodBehindNAT(t *testing.T) {
	l := newLab(t, func(c *Config) { c.NAT = true }, "a", "b")
	for _, junk := range floods {
		l.flood(l.addr("a"), junk)
	}
	behind := nodeAddr(9)
	l.flood(behind, floods["forged"])
	l.must("a", "b")
	rec := l.nodes["a"].sent.last()
	if status, body := l.put(behind, "b", rec); status != refusals[replayed].status || !strings.Contains(body, string(replayed)) {
		t.Errorf("what is signed, from behind it: %d %s", status, body)
	}
}

// Strangers do no more to a node whose address another one has, too.
func TestAFloodOfStrangers(t *testing.T) {
	l := newLab(t, nil, "a", "b", "c")
	l.unit.Addrs["c"] = []netip.Addr{l.addr("c"), l.addr("a")}
	for _, n := range l.nodes {
		n.p.SetUnit(l.as(n.name))
	}
	l.flood(nodeAddr(9), floods["forged"])
	l.must("a", "b")
	l.must("c", "b")
}

// Of sources that sent too much that is forged one signature is looked at at a time: however many
// there are, that is all they cost, and none of the others waits for it.
func TestWhoIsDoubtedWaits(t *testing.T) {
	l := newLab(t, nil, "a", "b", "c")
	l.must("a", "b")
	l.must("c", "b")
	l.flood(l.addr("a"), floods["forged"])
	b := l.nodes["b"]
	b.p.doubted <- struct{}{} // one is looked at
	arrived := make(chan error, 1)
	go func() {
		_, err := l.nodes["a"].p.Report(t.Context(), "b", vote.Reported{})
		arrived <- err
	}()
	for range 10 {
		l.must("c", "b")
	}
	select {
	case err := <-arrived:
		t.Errorf("it does not wait: %v", err)
	default:
	}
	<-b.p.doubted
	if err := <-arrived; err != nil {
		t.Errorf("when its turn comes: %v", err)
	}
	b.p.trusted <- struct{}{}
	if err := l.report("a", "b"); err != nil {
		t.Errorf("it waits for those that are not doubted: %v", err)
	}
	<-b.p.trusted
}

// cutting is a listener that cuts connections, as one that makes room for others.
type cutting struct {
	net.Listener
	left atomic.Int64 // that it cuts
}

func (c *cutting) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil || c.left.Add(-1) < 0 {
			return conn, err
		}
		_ = conn.Close()
	}
}

// A connection that was cut is made again, a few times.
func TestCutConnections(t *testing.T) {
	l := newLab(t, nil, "a", "b")
	l.nodes["b"].stop()
	listener, err := net.Listen("tcp", netip.AddrPortFrom(l.addr("b"), l.cfg.Port).String())
	if err != nil {
		t.Fatal(err)
	}
	c := &cutting{Listener: listener}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- l.nodes["b"].p.Run(ctx, c) }()
	for range 3 {
		c.left.Store(mostCuts)
		l.must("a", "b")
	}
	c.left.Store(1000)
	if err := l.report("a", "b"); err == nil {
		t.Error("no error")
	}
	if n := 1000 - c.left.Load(); n != 1+mostCuts {
		t.Errorf("it is sent %d times", n)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
