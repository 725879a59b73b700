package firewall

import (
	"net/netip"
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
	f.Fuzz(func(t *testing.T, data []byte) {
		rule, err := nft.ExpressionsOf(data)
		if err != nil {
			return
		}
		w := &walk{
			Packet: Packet{Mark: 1, Sources: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/20"), netip.MustParsePrefix("fd00:244::/64")}},
			chains: map[string][][]nft.Expression{"in": {rule, rule}}, elements: func(string) ([]nft.Element, error) {
				return []nft.Element{{}, {SetElement: nftables.SetElement{Key: []byte{6}}}}, nil
			},
		}
		if f := w.chain("in"); f < goesOn || f > isRefused {
			t.Errorf("a packet meets %d", f)
		}
	})
}
