package capture

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/nft"
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
	var by map[string]int
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		by = l.waiting(t, to)
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
	if now := l.waiting(t, to); now["192.0.2.9"] < 2 || now["10.99.0.2"] < 2 || now["10.244.0.5"] >= by["10.244.0.5"] {
		t.Errorf("SYNs wait: %v, before %v: want those of other zones, from 192.0.2.9 and 10.99.0.2, and fewer of 10.244.0.5", now, by)
	}
}

// So is one of UDP, unless it was translated: to an endpoint that serves no more.
func TestUDPOfOtherZonesStays(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t, kernelConfig())
	flows := []struct {
		zone   uint16
		port   uint16 // of the client
		by     string
		forget bool
	}{
		{0, 1001, "10.96.0.1", true},
		{0, 1002, "10.244.0.9", true},
		{0, 1003, "10.244.0.6", false},
		{7, 1004, "10.96.0.1", false},
		{7, 1005, "10.244.0.9", true},
		{7, 1006, "10.244.0.6", false},
	}
	must(t, l.asks(func(conn *nl.Conn) error {
		for _, f := range flows {
			client, by := netip.AddrPortFrom(netip.MustParseAddr("10.244.0.5"), f.port), netip.AddrPortFrom(netip.MustParseAddr(f.by), 53)
			if err := makeFlow(conn, f.zone, client, netip.MustParseAddrPort("10.96.0.1:53"), by); err != nil {
				return fmt.Errorf("make %+v: %w", f, err)
			}
		}
		return nil
	}))
	table := newConntrack(unix.NFNL_SUBSYS_CTNETLINK)
	must(t, l.asks(func(conn *nl.Conn) error {
		_, err := table.forget(conn, serving("10.96.0.1:53", "10.244.0.6:53"))
		return err
	}))
	left := map[uint16]bool{}
	must(t, l.asks(func(conn *nl.Conn) error {
		return table.each(conn, asked{family: unix.AF_INET}, func(item []byte) {
			_, orig, _ := parseTuples(item)
			left[orig.src.Port()] = true
		})
	}))
	for _, f := range flows {
		if left[f.port] == f.forget {
			t.Errorf("%+v: is left = %v", f, left[f.port])
		}
	}
}

// makeFlow makes a flow of UDP in a zone of conntrack.
func makeFlow(conn *nl.Conn, zone uint16, client, dialled, by netip.AddrPort) error {
	nested := func(kind uint16, parts ...[]byte) []byte {
		return nft.Attribute(kind|unix.NLA_F_NESTED, slices.Concat(parts...))
	}
	number := func(kind, n uint16) []byte { return nft.Attribute(kind, binary.BigEndian.AppendUint16(nil, n)) }
	tuple := func(kind uint16, from, to netip.AddrPort) []byte {
		return nested(kind,
			nested(ctaTupleIP, nft.Attribute(1, from.Addr().AsSlice()), nft.Attribute(ctaIPv4Dst, to.Addr().AsSlice())),
			nested(ctaTupleProto, nft.Attribute(ctaProtoNum, []byte{unix.IPPROTO_UDP}), number(ctaProtoSrcPort, from.Port()), number(ctaProtoDstPort, to.Port())))
	}
	const create, timeout = 0, 7
	_, err := conn.Execute(nl.Message{
		Header: nl.Header{Type: nl.HeaderType(unix.NFNL_SUBSYS_CTNETLINK<<8 | create), Flags: nl.Request | nl.Acknowledge | nl.Create | nl.Excl},
		Data: slices.Concat(nft.Header(unix.AF_INET), tuple(ctaTupleOrig, client, dialled), tuple(ctaTupleReply, by, client),
			nft.Attribute(timeout, binary.BigEndian.AppendUint32(nil, 100)), number(ctaZone, zone)),
	})
	return err
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
