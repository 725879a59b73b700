package capture

import (
	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// family is what differs between IPv4 and IPv6 rules.
type family struct {
	suffix       string // of set names
	proto        byte
	addrType     nftables.SetDatatype
	length       uint32
	saddr, daddr uint32 // offsets in the network header
	loopback     []byte
}

var families = []family{
	{"4", unix.NFPROTO_IPV4, nftables.TypeIPAddr, 4, 12, 16, []byte{127, 0, 0, 1}},
	{"6", unix.NFPROTO_IPV6, nftables.TypeIP6Addr, 16, 8, 24, []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
}

// The 4-byte registers start at NFT_REG32_00; a concatenation lies in
// consecutive ones.
const reg = unix.NFT_REG32_00

type exprs = []expr.Any

func join(parts ...exprs) exprs {
	var all exprs
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func (f family) is() exprs {
	return exprs{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: reg},
		&expr.Cmp{Register: reg, Op: expr.CmpOpEq, Data: []byte{f.proto}},
	}
}

func (f family) load(offset uint32, to uint32) expr.Any {
	return &expr.Payload{DestRegister: to, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: f.length}
}

// frontendIn matches destination, protocol and port against a set.
func (f family) frontendIn(set string) exprs {
	next := reg + f.length/4
	return exprs{
		f.load(f.daddr, reg),
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: next},
		&expr.Payload{DestRegister: next + 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Lookup{SourceRegister: reg, SetName: set + f.suffix},
	}
}

// addrIn matches one address of the packet against a set.
func (f family) addrIn(offset uint32, set string) exprs {
	return exprs{f.load(offset, reg), &expr.Lookup{SourceRegister: reg, SetName: set + f.suffix}}
}

// pairIn matches source and destination together against a set.
func (f family) pairIn(set string) exprs {
	return exprs{
		f.load(f.saddr, reg),
		f.load(f.daddr, reg+f.length/4),
		&expr.Lookup{SourceRegister: reg, SetName: set + f.suffix},
	}
}

func l4proto(p byte) exprs {
	return exprs{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg},
		&expr.Cmp{Register: reg, Op: expr.CmpOpEq, Data: []byte{p}},
	}
}

// markIs and markIsNot compare the packet's mark under the mask.
func markIs(mark, mask uint32) exprs    { return markCmp(expr.CmpOpEq, mark, mask) }
func markIsNot(mark, mask uint32) exprs { return markCmp(expr.CmpOpNeq, mark, mask) }

func markCmp(op expr.CmpOp, mark, mask uint32) exprs {
	return exprs{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: reg},
		bits(mask, 0),
		&expr.Cmp{Register: reg, Op: op, Data: binaryutil.NativeEndian.PutUint32(mark)},
	}
}

// setMark sets the bits under the mask and leaves the others.
func setMark(mark, mask uint32) exprs {
	return exprs{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: reg},
		bits(^mask, mark),
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: reg},
	}
}

func bits(and, xor uint32) expr.Any {
	return &expr.Bitwise{
		SourceRegister: reg, DestRegister: reg, Len: 4,
		Mask: binaryutil.NativeEndian.PutUint32(and), Xor: binaryutil.NativeEndian.PutUint32(xor),
	}
}

func (f family) tproxy(port uint16) exprs {
	return exprs{
		&expr.Immediate{Register: reg, Data: f.loopback},
		&expr.Immediate{Register: reg + 4, Data: binaryutil.BigEndian.PutUint16(port)},
		&expr.TProxy{Family: f.proto, TableFamily: unix.NFPROTO_INET, RegAddr: reg, RegPort: reg + 4},
	}
}

// onBridge matches what came in over one of the bridges that pods hang on.
func onBridge() exprs {
	return exprs{
		&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: reg},
		&expr.Lookup{SourceRegister: reg, SetName: bridges},
	}
}

func redirect(port uint16) exprs {
	return exprs{
		&expr.Immediate{Register: reg, Data: binaryutil.BigEndian.PutUint16(port)},
		&expr.Redir{RegisterProtoMin: reg, RegisterProtoMax: reg, Flags: natRangeSpecified},
	}
}

// natRangeSpecified is NF_NAT_RANGE_PROTO_SPECIFIED of linux/netfilter/nf_nat.h.
const natRangeSpecified = 2

// destinationPort matches a port of TCP.
func destinationPort(port uint16) exprs {
	return append(l4proto(unix.IPPROTO_TCP),
		&expr.Payload{DestRegister: reg, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Register: reg, Op: expr.CmpOpEq, Data: binaryutil.BigEndian.PutUint16(port)})
}

// setCtMark sets the bits under the mask of the connection's mark.
func setCtMark(mark, mask uint32) exprs {
	return exprs{
		&expr.Ct{Key: expr.CtKeyMARK, Register: reg},
		bits(^mask, mark),
		&expr.Ct{Key: expr.CtKeyMARK, Register: reg, SourceRegister: true},
	}
}

// ctKnown matches what belongs to a connection that conntrack has seen begin,
// ctMarkIsNot compares the connection's mark under the mask.
func ctKnown() exprs {
	const established, related = 1 << 1, 1 << 2 // NF_CT_STATE_BIT of linux/netfilter/nf_conntrack_common.h
	return exprs{
		&expr.Ct{Key: expr.CtKeySTATE, Register: reg},
		bits(established|related, 0),
		&expr.Cmp{Register: reg, Op: expr.CmpOpNeq, Data: binaryutil.NativeEndian.PutUint32(0)},
	}
}

func ctMarkIsNot(mark, mask uint32) exprs {
	return exprs{
		&expr.Ct{Key: expr.CtKeyMARK, Register: reg},
		bits(mask, 0),
		&expr.Cmp{Register: reg, Op: expr.CmpOpNeq, Data: binaryutil.NativeEndian.PutUint32(mark)},
	}
}

// notRedirected matches connections whose destination no NAT changed.
func notRedirected() exprs {
	const ipsDstNAT = 1 << 5 // linux/netfilter/nf_conntrack_common.h
	return exprs{
		&expr.Ct{Key: expr.CtKeySTATUS, Register: reg},
		bits(ipsDstNAT, 0),
		&expr.Cmp{Register: reg, Op: expr.CmpOpEq, Data: binaryutil.NativeEndian.PutUint32(0)},
	}
}

func socketTransparent() exprs {
	return exprs{
		&expr.Socket{Key: expr.SocketKeyTransparent, Register: reg},
		&expr.Cmp{Register: reg, Op: expr.CmpOpEq, Data: []byte{1}},
	}
}

// The guard's two answers: what a closed port would say.
func resetTCP() exprs { return exprs{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}} }

func rejectUnreachable() exprs {
	return exprs{&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_PORT_UNREACH}}
}

func verdict(kind expr.VerdictKind, chain string) exprs {
	return exprs{&expr.Verdict{Kind: kind, Chain: chain}}
}

func accept() exprs          { return verdict(expr.VerdictAccept, "") }
func drop() exprs            { return verdict(expr.VerdictDrop, "") }
func leave() exprs           { return verdict(expr.VerdictReturn, "") }
func jump(c string) exprs    { return verdict(expr.VerdictJump, c) }
func masquerade() exprs      { return exprs{&expr.Masq{FullyRandom: true}} }
func countPackets() exprs    { return exprs{&expr.Counter{}} }
func cat(a, b []byte) []byte { return append(append([]byte{}, a...), b...) }
