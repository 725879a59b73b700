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
	value []byte // of known, and of other; of an address, which bits of it count, nil for all
}

const (
	unknown = iota
	known
	other   // than all that begins so
	client  // its port, which differs from packet to packet, and is a high one
	port    // the Service's, which differs from packet to packet
	target  // where it goes, which does too
	source4 // or the beginning of it
	source6
)

// loopback is lo's number, in each network.
const loopback = 1

// registers are what a rule has loaded, by the word at which it begins.
type registers map[uint32]register

// word is where a register begins: the kernel has four of four words each, and numbers
// for each of these words.
func word(number uint32) uint32 {
	if number < unix.NFT_REG32_00 {
		return 4 * (number - unix.NFT_REG_1)
	}
	return number - unix.NFT_REG32_00
}

func (r registers) at(number uint32) register { return r[word(number)] }

func (r registers) put(number uint32, what register) { r[word(number)] = what }

func native(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

func (w *walk) meta(key uint32) register {
	if w.altered[key] {
		return register{}
	}
	switch key {
	case unix.NFT_META_MARK:
		return register{known, native(w.Mark)}
	case unix.NFT_META_IIFNAME:
		return register{other, []byte("lo\x00")}
	case unix.NFT_META_IIF:
		return register{other, native(loopback)}
	case unix.NFT_META_IIFTYPE:
		return register{other, binary.NativeEndian.AppendUint16(nil, unix.ARPHRD_LOOPBACK)}
	case unix.NFT_META_PKTTYPE:
		return register{known, []byte{unix.PACKET_HOST}}
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

// fib is what kind of an address it goes to: a Service's is none of the host's.
func (w *walk) fib(e nft.Expression) register {
	of := e.Number(unix.NFTA_FIB_FLAGS) &^ unix.NFTA_FIB_F_IIF
	if e.Number(unix.NFTA_FIB_RESULT) == unix.NFT_FIB_RESULT_ADDRTYPE && of == unix.NFTA_FIB_F_DADDR && !w.Redirected {
		return register{known, native(unix.RTN_UNICAST)}
	}
	return register{}
}

// Where headers of IPv4 and IPv6 have their protocol, their source and where they go to; how
// long the ports are, before the rest of TCP's.
const protocol4At, protocol6At, source4At, source6At, target4At, target6At, ports = 9, 6, 12, 8, 16, 24, 4

func (w *walk) payload(e nft.Expression) register {
	length := e.Number(unix.NFTA_PAYLOAD_LEN)
	switch at := e.Number(unix.NFTA_PAYLOAD_OFFSET); {
	case e.Number(unix.NFTA_PAYLOAD_BASE) == unix.NFT_PAYLOAD_TRANSPORT_HEADER:
		switch {
		case at == 0:
			return register{what: client}
		case at < ports:
			return register{what: port}
		}
	case e.Number(unix.NFTA_PAYLOAD_BASE) != unix.NFT_PAYLOAD_NETWORK_HEADER:
	case length == 1 && (at == protocol4At || at == protocol6At):
		return register{known, []byte{unix.IPPROTO_TCP}}
	case at == source4At && length <= 4:
		return register{what: source4}
	case (at == target4At && length <= 4 || at == target6At) && !w.Redirected:
		return register{what: target}
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
	case r.what == source4, r.what == source6, r.what == target:
		return register{r.what, mask}
	case r.what != known:
		return register{}
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
		switch {
		case bytes.Equal(r.value, with):
			same = always
		case len(r.value) == len(with):
			same = never
		}
	case port, client:
		same = never
	case other:
		if bytes.HasPrefix(with, r.value) {
			same = never
		}
	case target:
		if r.value == nil && (len(with) == 4 || len(with) == 16) || group(with) {
			same = never
		}
	case source4, source6:
		same = w.from(r, with)
	}
	switch {
	case r.what == port && (op == unix.NFT_CMP_GTE && allPorts(portOf(with), 0xffff) || op == unix.NFT_CMP_LTE && allPorts(0, portOf(with))):
		return maybe
	case op == unix.NFT_CMP_EQ, r.what == port && op != unix.NFT_CMP_NEQ:
		return same
	case op == unix.NFT_CMP_NEQ && r.what != port && r.what != client:
		return always - same
	}
	return maybe
}

// group reports whether addresses that begin so are of groups, or of a link: no Service's.
func group(begins []byte) bool {
	switch len(begins) {
	case 0:
		return false
	case 1, 2:
		return begins[0] == 0xff || begins[0]>>4 == 0xe || bytes.Equal(begins, []byte{0xfe, 0x80})
	case 4:
		return begins[0]>>4 == 0xe
	}
	return begins[0] == 0xff || begins[0] == 0xfe && begins[1]&0xc0 == 0x80
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
