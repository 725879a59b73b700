package capture

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	nl "github.com/mdlayher/netlink"
	"github.com/mdlayher/netlink/nltest"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/topology"
)

// While the kernel serves in the place of Envoy it is looked for, at once, again soon, and from
// then on now and then; by another connection where one failed, and not any more afterwards.
func TestWhenEnvoysFlowsAreLookedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, dials := time.Now(), 0
		var mu sync.Mutex
		var at []time.Duration
		var fails bool
		a := &abandonment{forget: func(context.Context, *nl.Conn, envoys) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(start))
			if fails {
				return false, errors.New("broken")
			}
			return false, nil
		}}
		dial := func() (*nl.Conn, error) { dials++; return nltest.Dial(nil), nil }
		looked := func(for_ time.Duration, want ...time.Duration) {
			t.Helper()
			time.Sleep(for_)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(at, want) {
				t.Errorf("looked at %v, want %v", at, want)
			}
			start, at = time.Now(), nil
		}
		const ms = time.Millisecond
		web := newEnvoys([]topology.Frontend{tcp("10.96.0.1:80")})
		a.begin(dial, web, true)
		looked(5*time.Second-ms, 0, 100*ms, 2100*ms, 4100*ms)
		a.begin(dial, web, false) // as each Repair does
		looked(2*time.Second, 1101*ms)
		if dials != 1 {
			t.Errorf("dialled %d times, want once", dials)
		}
		a.begin(dial, web, true) // another switch
		looked(time.Second, 0, 100*ms)
		fail := func(so bool) { mu.Lock(); defer mu.Unlock(); fails = so }
		fail(true)
		looked(2*time.Second, 1100*ms)
		fail(false)
		a.begin(dial, web, false)
		looked(ms, 0)
		if dials != 3 {
			t.Errorf("dialled %d times, want once for each beginning, and after the failure", dials)
		}
		a.stop()
		looked(time.Minute)
		a.ended.Wait()
	})
}

// A flow is forgotten that is the same, and left, a moment after it was found: one that was on its
// way to its taker is not, nor is the next by its port, nor one of another zone, which is another's:
// the rules never saw it.
func TestFlowsAreForgottenThatStay(t *testing.T) {
	const sent, established = 1, 3
	for what, c := range map[string]struct {
		again     []byte // what is told of it then
		err       error
		forgotten int
		zone      zone // in which it is
	}{
		"stays":           {flowItem(1, sent), nil, 1, zone{}},
		"is taken":        {flowItem(1, established), nil, 0, zone{}},
		"another":         {flowItem(2, sent), nil, 0, zone{}},
		"gone":            {nil, nil, 0, zone{}},
		"a broken answer": {[]byte{1}, nil, 0, zone{}},
		"a torn list":     {flowItem(1, sent), dump.ErrTorn, 1, zone{}},
		"a failure":       {flowItem(1, sent), errors.New("broken"), 0, zone{}},
		"of a zone":       {flowItem(1, sent, zone{both: 7}), nil, 0, zone{both: 7}},
		"of one outwards": {flowItem(1, sent, zone{orig: 7}), nil, 0, zone{orig: 7}},
		"of one back":     {flowItem(1, sent, zone{reply: 7}), nil, 0, zone{reply: 7}},
	} {
		l := newConntrack(unix.NFNL_SUBSYS_CTNETLINK)
		l.each = func(_ *nl.Conn, q asked, take func([]byte)) error {
			if q.family != unix.AF_INET {
				t.Errorf("asked about family %d, of which there is no frontend", q.family)
			}
			take(flowItem(1, sent, c.zone))
			return c.err
		}
		forgotten := 0
		conn := nltest.Dial(func(req []nl.Message) ([]nl.Message, error) {
			switch {
			case req[0].Header.Type&0xff == ctDelete:
				forgotten++
				return nltest.Error(0, req)
			case c.again == nil:
				return nltest.Error(int(unix.ENOENT), req)
			}
			return []nl.Message{{Header: nl.Header{Sequence: req[0].Header.Sequence, PID: req[0].Header.PID}, Data: slices.Concat(make([]byte, nfgenmsgLen), c.again)}}, nil
		})
		more, err := l.forgetAbandoned(t.Context(), conn, newEnvoys([]topology.Frontend{tcp("10.96.0.1:80")}))
		if torn := errors.Is(c.err, dump.ErrTorn); forgotten != c.forgotten || more != torn || (err != nil) != (c.err != nil && !torn) {
			t.Errorf("%s: %d are forgotten, want %d; more: %v; %v", what, forgotten, c.forgotten, more, err)
		}
	}
}

// flowItem is a flow to 10.96.0.1:80 as the kernel tells of it.
func flowItem(id, state byte, of ...zone) []byte {
	in := slices.Concat(of, []zone{{}})[0]
	named := func(kind uint16, n byte) []byte {
		if n == 0 {
			return nil
		}
		return nft.Attribute(kind, []byte{0, n})
	}
	end := func(src, dst netip.AddrPort, zone byte) []byte {
		port := func(kind uint16, n uint16) []byte { return nft.Attribute(kind, binary.BigEndian.AppendUint16(nil, n)) }
		return slices.Concat(nft.Attribute(ctaTupleIP, slices.Concat(nft.Attribute(1, src.Addr().AsSlice()), nft.Attribute(2, dst.Addr().AsSlice()))),
			nft.Attribute(ctaTupleProto, slices.Concat(nft.Attribute(1, []byte{unix.IPPROTO_TCP}), port(2, src.Port()), port(3, dst.Port()))), named(3, zone))
	}
	client, service := netip.MustParseAddrPort("10.244.0.5:40001"), netip.MustParseAddrPort("10.96.0.1:80")
	return slices.Concat(nft.Attribute(ctaTupleOrig, end(client, service, in.orig)), nft.Attribute(ctaTupleReply, end(service, client, in.reply)),
		nft.Attribute(ctaProtoInfo, nft.Attribute(ctaProtoInfoTCP, nft.Attribute(ctaProtoInfoTCPState, []byte{state}))), nft.Attribute(ctaID, []byte{0, 0, 0, id}), named(ctaZone, in.both))
}

// zone is what conntrack tells of one, of a flow or of one direction; 0 of none.
type zone struct{ both, orig, reply byte }

// FuzzFlow: whatever the kernel says of a flow is read, or is none.
func FuzzFlow(f *testing.F) {
	f.Add([]byte{8, 0, 4, 0, 1, 2, 3, 4})
	f.Fuzz(func(_ *testing.T, item []byte) {
		_, orig, reply := parseTuples(item)
		newEnvoys(nil).left(orig, reply, stateOf(item))
	})
}

// What of conntrack's Envoy's path left, by who answers and the state.
func TestWhatEnvoyLeft(t *testing.T) {
	e := newEnvoys([]topology.Frontend{tcp("10.96.0.1:80")}, netip.MustParseAddrPort("10.244.0.1:15003"))
	flow := func(to, answerer string) (orig, reply tuple) {
		orig = tuple{proto: unix.IPPROTO_TCP, src: netip.MustParseAddrPort("10.244.0.5:40001"), dst: netip.MustParseAddrPort(to)}
		return orig, tuple{proto: orig.proto, src: netip.MustParseAddrPort(answerer), dst: orig.src}
	}
	const sent, established, closes, closed = 1, 3, 6, 8
	for name, c := range map[string]struct {
		to, by string
		state  byte
		left   bool
	}{
		"not taken":                {"10.96.0.1:80", "10.96.0.1:80", sent, true},
		"not taken, of a bridge":   {"10.96.0.1:80", "10.244.0.1:15003", sent, true},
		"open":                     {"10.96.0.1:80", "10.96.0.1:80", established, false},
		"at its end":               {"10.96.0.1:80", "10.96.0.1:80", closes, false},
		"ended":                    {"10.96.0.1:80", "10.96.0.1:80", closed, true},
		"the kernel's":             {"10.96.0.1:80", "10.244.0.6:8080", sent, false},
		"the kernel's, and ended":  {"10.96.0.1:80", "10.244.0.6:8080", closed, false},
		"the kernel's, by a port":  {"10.96.0.1:80", "10.244.0.6:15003", sent, false},
		"offloaded":                {"10.96.0.1:80", "10.96.0.1:80", 0, false},
		"of another frontend":      {"10.96.0.2:80", "10.96.0.2:80", sent, false},
		"of another, for a bridge": {"10.96.0.2:80", "10.244.0.1:15003", sent, false},
	} {
		if orig, reply := flow(c.to, c.by); e.left(orig, reply, c.state) != c.left {
			t.Errorf("%s: %v, want %v", name, !c.left, c.left)
		}
	}
}
