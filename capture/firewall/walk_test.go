package firewall

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/nft"
)

// expression is one as the kernel tells it.
func expression(t testing.TB, name string, attrs ...nl.Attribute) []byte {
	t.Helper()
	data, err := nl.MarshalAttributes(attrs)
	if err == nil {
		data, err = nl.MarshalAttributes([]nl.Attribute{{Type: unix.NFTA_EXPR_NAME, Data: []byte(name + "\x00")}, {Type: unix.NFTA_EXPR_DATA, Data: data}})
	}
	if err == nil {
		data, err = nl.MarshalAttributes([]nl.Attribute{{Type: unix.NFTA_LIST_ELEM, Data: data}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Whatever is told of rules, a packet comes to an end in them, and to one of three.
// (What real rules lead to: TestFirewalls of package capture.)
func FuzzWalk(f *testing.F) {
	number := func(of uint16, n byte) nl.Attribute { return nl.Attribute{Type: of, Data: []byte{0, 0, 0, n}} }
	f.Add(append(expression(f, "payload", number(unix.NFTA_PAYLOAD_DREG, 1), number(unix.NFTA_PAYLOAD_BASE, 1), number(unix.NFTA_PAYLOAD_OFFSET, 12), number(unix.NFTA_PAYLOAD_LEN, 4)),
		expression(f, "bitwise", number(unix.NFTA_BITWISE_SREG, 1), number(unix.NFTA_BITWISE_DREG, 1), nl.Attribute{Type: unix.NFTA_BITWISE_MASK, Data: []byte{5, 0, 1, 0, 3}})...))
	f.Add(append(expression(f, "meta", number(unix.NFTA_META_DREG, 1), number(unix.NFTA_META_KEY, 3)),
		expression(f, "cmp", number(unix.NFTA_CMP_SREG, 1), number(unix.NFTA_CMP_OP, 1), nl.Attribute{Type: unix.NFTA_CMP_DATA, Data: []byte{5, 0, 1, 0, 3}})...))
	f.Add(expression(f, "match", nl.Attribute{Type: unix.NFTA_MATCH_NAME, Data: []byte("conntrack\x00")}, nl.Attribute{Type: unix.NFTA_MATCH_INFO, Data: make([]byte, 151)}))
	f.Add(append(expression(f, "lookup", number(unix.NFTA_LOOKUP_SREG, 1)), expression(f, "reject")...))
	f.Add(append(expression(f, "meta", number(unix.NFTA_META_SREG, 1), number(unix.NFTA_META_KEY, 3)), expression(f, "target", nl.Attribute{Type: unix.NFTA_TARGET_NAME, Data: []byte("MARK\x00")})...))
	f.Add(expression(f, "match", nl.Attribute{Type: unix.NFTA_MATCH_NAME, Data: []byte("multiport\x00")}, nl.Attribute{Type: unix.NFTA_MATCH_INFO, Data: make([]byte, 48)}))
	f.Fuzz(func(t *testing.T, data []byte) {
		rule, err := nft.ExpressionsOf(data)
		if err != nil {
			return
		}
		w := &walk{
			altered: map[uint32]bool{}, Packet: Packet{Mark: 1, Sources: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/20"), netip.MustParsePrefix("fd00:244::/64")}},
			chains: map[string][][]nft.Expression{"in": {rule, rule}}, elements: func(string) ([]nft.Element, error) {
				return []nft.Element{{}, {SetElement: nftables.SetElement{Key: []byte{6}}}}, nil
			},
		}
		if f := w.chain("in"); f < goesOn || f > isRefused {
			t.Errorf("a packet meets %d", f)
		}
	})
}

// What nobody here knows may let a packet in, and so may a program that is asked. (Few kernels
// have all of these.)
func TestStatements(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]fate{"novelty": mayPass, "queue": mayPass, "synproxy": mayPass, "limit": goesOn, "log": isRefused} {
		rule, err := nft.ExpressionsOf(append(expression(t, name), expression(t, "reject")...))
		if err != nil {
			t.Fatal(err)
		}
		w := &walk{chains: map[string][][]nft.Expression{"in": {rule}}}
		if got := w.chain("in"); got != want {
			t.Errorf("behind %s: %d, want %d", name, got, want)
		}
	}
}

// An iptables of before 1.8.8 has TCP's ports in an extension: from and to of the client,
// from and to of the Service, and which of them are inverted.
func TestPortsOfTCP(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		client, service [2]uint16
		inverted        byte
		want            certain
	}{
		"any":               {[2]uint16{0, 65535}, [2]uint16{0, 65535}, 0, maybe},
		"one":               {[2]uint16{0, 65535}, [2]uint16{22, 22}, 0, never},
		"all but one":       {[2]uint16{0, 65535}, [2]uint16{22, 22}, 2, maybe},
		"a client's":        {[2]uint16{1024, 65535}, [2]uint16{0, 65535}, 0, maybe},
		"one of a client":   {[2]uint16{53, 53}, [2]uint16{0, 65535}, 0, never},
		"but one of theirs": {[2]uint16{53, 53}, [2]uint16{0, 65535}, 1, maybe},
	} {
		var info []byte
		for _, n := range []uint16{tc.client[0], tc.client[1], tc.service[0], tc.service[1]} {
			info = binary.NativeEndian.AppendUint16(info, n)
		}
		if got := tcp(append(info, 0, 0, 0, tc.inverted)); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

// A set that is too long to be read may have the packet in it, or not: one of whom to let
// in lets it in, and one of whom to refuse refuses nobody for sure, so that what lies
// behind it counts.
func TestASetThatIsTooLong(t *testing.T) {
	t.Parallel()
	nested := func(of uint16, attrs ...nl.Attribute) nl.Attribute {
		data, err := nl.MarshalAttributes(attrs)
		if err != nil {
			t.Fatal(err)
		}
		return nl.Attribute{Type: of, Data: data}
	}
	number := func(of uint16, n uint32) nl.Attribute {
		return nl.Attribute{Type: of, Data: binary.BigEndian.AppendUint32(nil, n)}
	}
	lookup := expression(t, "lookup", nl.Attribute{Type: unix.NFTA_LOOKUP_SET, Data: []byte("many\x00")}, number(unix.NFTA_LOOKUP_SREG, unix.NFT_REG_1))
	accept := expression(t, "immediate", number(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT),
		nested(unix.NFTA_IMMEDIATE_DATA, nested(unix.NFTA_DATA_VERDICT, number(unix.NFTA_VERDICT_CODE, 1))))
	reject := expression(t, "reject")
	for name, tc := range map[string]struct {
		rules [][]byte
		want  fate
	}{
		"of whom to let in":         {[][]byte{slices.Concat(lookup, accept), reject}, mayPass},
		"of whom to refuse":         {[][]byte{slices.Concat(lookup, reject)}, goesOn},
		"of whom to refuse, others": {[][]byte{slices.Concat(lookup, reject), reject}, isRefused},
	} {
		w := &walk{altered: map[uint32]bool{}, chains: map[string][][]nft.Expression{}, elements: func(string) ([]nft.Element, error) { return nil, nft.ErrMany }}
		for _, data := range tc.rules {
			rule, err := nft.ExpressionsOf(data)
			if err != nil {
				t.Fatal(err)
			}
			w.chains["in"] = append(w.chains["in"], rule)
		}
		if got := w.chain("in"); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

// A set is read once, however many rules ask it; so many, and no more.
func TestSetsAreReadOnce(t *testing.T) {
	reads := map[string]int{}
	read := once(func(set string) ([]nft.Element, error) {
		reads[set]++
		return []nft.Element{{}}, nil
	})
	for i := range 3 * mostSets {
		list, err := read(fmt.Sprint(i % (2 * mostSets)))
		if known := i%(2*mostSets) < mostSets; known != (err == nil) || known != (len(list) == 1) {
			t.Fatalf("set %d: %v, %v", i, list, err)
		}
	}
	for set, n := range reads {
		if n != 1 || len(reads) != mostSets {
			t.Fatalf("set %s was read %d times, and %d sets were", set, n, len(reads))
		}
	}
}
