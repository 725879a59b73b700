package firewall

import (
	"bytes"
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/nft"
)

// register is what a rule has loaded of a packet.
type register struct {
	what  int
	value []byte // of known; of a source, which bits of it count, nil for all
}

const (
	unknown = iota
	known
	port    // or whatever else differs from packet to packet
	link    // by which it came: not lo
	source4 // or the beginning of it
	source6
)

func native(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

func (w *walk) meta(key uint32) register {
	switch key {
	case unix.NFT_META_MARK:
		return register{known, native(w.Mark)}
	case unix.NFT_META_IIFNAME, unix.NFT_META_IIF:
		return register{what: link}
	case unix.NFT_META_L4PROTO:
		return register{known, []byte{unix.IPPROTO_TCP}}
	}
	return register{}
}

// Of linux/netfilter/nf_conntrack_common.h, the second as nftables has it.
const statusDNAT, stateNew = 1 << 5, 1 << 3

func (w *walk) ct(key uint32) register {
	switch key {
	case unix.NFT_CT_STATE:
		return register{known, native(stateNew)}
	case unix.NFT_CT_STATUS:
		if w.Redirected {
			return register{known, native(statusDNAT)}
		}
		return register{known, native(0)}
	}
	return register{}
}

// Where headers of IPv4 and IPv6 have their protocol and their source.
const protocol4At, protocol6At, source4At, source6At = 9, 6, 12, 8

func payload(e nft.Expression) register {
	length := e.Number(unix.NFTA_PAYLOAD_LEN)
	switch at := e.Number(unix.NFTA_PAYLOAD_OFFSET); {
	case e.Number(unix.NFTA_PAYLOAD_BASE) == unix.NFT_PAYLOAD_TRANSPORT_HEADER:
		return register{what: port}
	case e.Number(unix.NFTA_PAYLOAD_BASE) != unix.NFT_PAYLOAD_NETWORK_HEADER:
	case length == 1 && (at == protocol4At || at == protocol6At):
		return register{known, []byte{unix.IPPROTO_TCP}}
	case at == source4At && length <= 4:
		return register{what: source4}
	case at == source6At && length > 1:
		return register{what: source6}
	}
	return register{}
}

func (r register) masked(e nft.Expression) register {
	mask, xor := e.Value(unix.NFTA_BITWISE_MASK), e.Value(unix.NFTA_BITWISE_XOR)
	switch {
	case len(mask) == 0, r.what == known && (len(mask) < len(r.value) || len(xor) < len(r.value)): // a shift, say
		return register{}
	case r.what == source4, r.what == source6:
		return register{r.what, mask}
	case r.what != known:
		return r
	}
	masked := make([]byte, len(r.value))
	for i, b := range r.value {
		masked[i] = b&mask[i] ^ xor[i]
	}
	return register{known, masked}
}

func (w *walk) compare(r register, op uint32, with []byte) certain {
	same := maybe
	switch r.what {
	case known:
		same = never
		if bytes.Equal(r.value, with) {
			same = always
		}
	case port:
		same = never
	case link:
		if bytes.Equal(bytes.TrimRight(with, "\x00"), []byte("lo")) {
			same = never
		}
	case source4, source6:
		same = w.from(r, with)
	}
	switch {
	case op == unix.NFT_CMP_EQ, r.what == port && op != unix.NFT_CMP_NEQ:
		return same
	case op == unix.NFT_CMP_NEQ && r.what != port:
		return always - same
	}
	return maybe
}

// from reports whether any pod's source is one that begins so.
func (w *walk) from(r register, begins []byte) certain {
	if len(w.Sources) == 0 {
		return maybe
	}
	for _, p := range w.Sources {
		if p.Addr().Is4() == (r.what == source4) && overlaps(p, begins, r.value) {
			return maybe
		}
	}
	return never
}

// overlaps reports whether a range has addresses that begin so, in the bits that count.
func overlaps(p netip.Prefix, begins, mask []byte) bool {
	ip := p.Addr().AsSlice()
	for i := range min(len(begins), len(ip)) {
		count := ^byte(0) << max(0, 8-max(0, p.Bits()-8*i)) // none where the shift is by all eight
		if i < len(mask) {
			count &= mask[i]
		}
		if (begins[i]^ip[i])&count != 0 {
			return false
		}
	}
	return true
}

// among is whether what was loaded is in a set.
func (w *walk) among(r register, e nft.Expression) certain {
	in := maybe
	switch r.what {
	case port:
		in = never
	case known:
		in = w.has(e.Text(unix.NFTA_LOOKUP_SET), r.value)
	}
	if e.Number(unix.NFTA_LOOKUP_FLAGS)&unix.NFT_LOOKUP_F_INV == 0 {
		return in
	}
	if r.what == port {
		return maybe
	}
	return always - in
}

func (w *walk) has(set string, value []byte) certain {
	list, err := w.elements(set)
	if err != nil {
		return maybe
	}
	for _, e := range list {
		if e.CatchAll || e.IntervalEnd || bytes.Equal(bytes.TrimRight(e.Key, "\x00"), bytes.TrimRight(value, "\x00")) {
			return maybe
		}
	}
	return never
}

// match is whether an extension of iptables holds, by its struct in linux/netfilter.
func (w *walk) match(e nft.Expression) certain {
	info := e.Bytes(unix.NFTA_MATCH_INFO)
	sure := func(holds bool) certain {
		if holds {
			return always
		}
		return never
	}
	switch e.Text(unix.NFTA_MATCH_NAME) {
	case "comment":
		return always
	case "multiport", "icmp", "icmp6", "sctp":
		return never
	case "tcp", "udp": // xt_tcp, xt_udp: ports from and to, and what else
		const all = "\x00\x00\xff\xff\x00\x00\xff\xff"
		if !bytes.HasPrefix(info, []byte(all)) {
			return never
		}
	case "mark": // xt_mark_mtinfo1
		if len(info) > 8 {
			return sure((w.Mark&binary.NativeEndian.Uint32(info[4:]) == binary.NativeEndian.Uint32(info)) == (info[8] == 0))
		}
	case "conntrack", "state": // xt_conntrack_mtinfo3
		const flagsAt, invertAt, statesAt, states, alias = 146, 148, 150, 1, 1 << 13
		if len(info) > statesAt+1 && binary.NativeEndian.Uint16(info[flagsAt:])&^alias == states {
			return sure(binary.NativeEndian.Uint16(info[statesAt:])&stateNew != 0 == (binary.NativeEndian.Uint16(info[invertAt:]) == 0))
		}
	}
	return maybe
}
