package capture

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/topology"
)

// A flow of another zone of conntrack's is another's, though it is to a frontend and nobody
// has taken it.
func TestWhatOtherZonesHaveStays(t *testing.T) {
	t.Parallel()
	l, to, from := behindEnvoy(t)
	l.hangs(t)
	const zones = `table ip zones { chain c { type filter hook prerouting priority -300
		iifname "up0" tcp dport 80 ct zone set 7
		iifname "far0" tcp dport 80 ct original zone set 7
	}; }`
	must(t, l.node.Do(func() error { nftCommand(t, zones, "-f", "-"); return nil }))
	var dialling sync.WaitGroup
	for _, ns := range []*testkit.Network{from["10.244.0.5"], l.outside, l.far} {
		for range 6 { // more than its queues take
			dialling.Go(func() {
				if conn, _ := dial(t, ns, "tcp", "", to, 5*time.Second); conn != nil {
					_ = conn.Close()
				}
			})
		}
	}
	defer dialling.Wait()
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		by := l.waiting(t, to)
		if by["10.244.0.5"] >= 2 && by["192.0.2.9"] >= 2 && by["10.99.0.2"] >= 2 {
			break
		}
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("SYNs wait: %v, want two of each", by)
		}
	}
	must(t, l.asks(func(conn *nl.Conn) error {
		_, err := newConntrack(unix.NFNL_SUBSYS_CTNETLINK).forgetAbandoned(t.Context(), conn, newEnvoys([]topology.Frontend{tcp(to)}))
		return err
	}))
	if by := l.waiting(t, to); by["192.0.2.9"] < 2 || by["10.99.0.2"] < 2 {
		t.Errorf("SYNs wait: %v, want those of other zones, from 192.0.2.9 and 10.99.0.2", by)
	}
}

// waiting counts the flows to a frontend that nobody has answered, of whichever zone, by client.
func (l *kernelLab) waiting(t *testing.T, to string) map[string]int {
	t.Helper()
	by := map[string]int{}
	must(t, l.asks(func(conn *nl.Conn) error {
		return newConntrack(unix.NFNL_SUBSYS_CTNETLINK).each(conn, asked{family: unix.AF_INET}, func(item []byte) {
			if _, orig, _ := parseTuples(item); orig.dst == netip.MustParseAddrPort(to) && stateOf(item) == 1 {
				by[orig.src.Addr().String()]++
			}
		})
	}))
	return by
}

// asks asks the node's conntrack.
func (l *kernelLab) asks(ask func(*nl.Conn) error) error {
	return l.node.Do(func() error {
		conn, err := l.flows.dial()
		if err != nil {
			return err
		}
		defer conn.Close()
		return ask(conn)
	})
}
