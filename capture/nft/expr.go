package nft

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/links"
	"github.com/gridmesh/gridmesh/capture/rules"
)

// family is what differs between IPv4 and IPv6 on the wire.
type family struct {
	proto        byte
	etherType    []byte
	length       uint32 // of an address
	saddr, daddr uint32 // offsets in the network header
	nexthop      expr.RtKey
}

var families = map[rules.Family]family{
	rules.IPv4: {unix.NFPROTO_IPV4, []byte{0x08, 0x00}, 4, 12, 16, expr.RtNexthop4},
	rules.IPv6: {unix.NFPROTO_IPV6, []byte{0x86, 0xdd}, 16, 8, 24, expr.RtNexthop6},
}

// The 4-byte registers start at NFT_REG32_00; a concatenation lies in
// consecutive ones.
const reg = unix.NFT_REG32_00

type exprs = []expr.Any

// Expressions is a rule as the kernel takes it.
func Expressions(r rules.Rule) (list exprs) {
	for _, t := range r {
		list = append(list, term(t)...)
	}
	return list
}

// term is one match or statement as the kernel takes it.
func term(t rules.Term) exprs {
	switch t := t.(type) {
	case rules.Is:
		return exprs{meta(expr.MetaKeyNFPROTO), equal(families[t.Family].proto)}
	case rules.L4:
		return exprs{meta(expr.MetaKeyL4PROTO), equal(byte(t.Protocol))}
	case rules.Frontend:
		return frontendIn(t)
	case rules.Saddr:
		return exprs{saddr(t.Family, reg), lookup(t.Set.For(t.Family))}
	case rules.Daddr:
		return exprs{daddr(t.Family, reg), lookup(t.Set.For(t.Family))}
	case rules.Pair:
		return exprs{saddr(t.Family, reg), daddr(t.Family, reg+families[t.Family].length/4), lookup(t.Set.For(t.Family))}
	case rules.Dport:
		return exprs{dport(reg), equal(binaryutil.BigEndian.PutUint16(t.Port)...)}
	case rules.FromBridge:
		return exprs{meta(expr.MetaKeyIIFNAME), lookup(rules.Bridges)}
	case rules.TransparentSocket:
		return exprs{&expr.Socket{Key: expr.SocketKeyTransparent, Register: reg}, equal(1)}
	case rules.TProxy:
		return tproxy(t)
	case rules.RedirectTo:
		return redirect(t.Port)
	case rules.Counter:
		return exprs{&expr.Counter{}}
	case rules.Jump:
		return exprs{&expr.Verdict{Kind: expr.VerdictJump, Chain: t.Chain}}
	case rules.Verdict:
		return exprs{verdict(t)}
	}
	return stateTerm(t)
}

// stateTerm is a term about marks and connections.
func stateTerm(t rules.Term) exprs {
	switch t := t.(type) {
	case rules.Mark:
		return masked(meta(expr.MetaKeyMARK), t.Op, t.Value, t.Mask)
	case rules.SetMark:
		return exprs{meta(expr.MetaKeyMARK), bits(^t.Mask, t.Value), setMeta(expr.MetaKeyMARK)}
	case rules.CtMark:
		return masked(ct(expr.CtKeyMARK), t.Op, t.Value, t.Mask)
	case rules.SetCtMark:
		return exprs{ct(expr.CtKeyMARK), bits(^t.Mask, t.Value), &expr.Ct{Key: expr.CtKeyMARK, Register: reg, SourceRegister: true}}
	case rules.Tracked:
		return masked(ct(expr.CtKeySTATE), rules.NotEqual, 0, expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED)
	case rules.New:
		return masked(ct(expr.CtKeySTATE), rules.NotEqual, 0, expr.CtStateBitNEW)
	case rules.Confirmed:
		const ipsConfirmed = 1 << 3 // linux/netfilter/nf_conntrack_common.h
		return masked(ct(expr.CtKeySTATUS), rules.NotEqual, 0, ipsConfirmed)
	case rules.Original:
		return exprs{ct(expr.CtKeyDIRECTION), equal(0)}
	case rules.Reply:
		return exprs{ct(expr.CtKeyDIRECTION), equal(1)}
	case rules.NotDNATed:
		const ipsDstNAT = 1 << 5 // linux/netfilter/nf_conntrack_common.h
		return masked(ct(expr.CtKeySTATUS), rules.Equal, 0, ipsDstNAT)
	}
	return wayTerm(t)
}

// wayTerm is a term about what routing chose.
func wayTerm(t rules.Term) exprs {
	switch t := t.(type) {
	case rules.Astray:
		return exprs{&expr.Fib{Register: reg, ResultOIF: true, FlagDADDR: true, FlagMARK: true, FlagPRESENT: true}, equal(binaryutil.NativeEndian.PutUint32(1)...)}
	case rules.Nexthop:
		return exprs{&expr.Rt{Register: reg, Key: families[t.Family].nexthop}, lookup(t.Set.For(t.Family))}
	case rules.NotLo:
		return exprs{meta(expr.MetaKeyOIF), &expr.Cmp{Register: reg, Op: expr.CmpOpNeq, Data: binaryutil.NativeEndian.PutUint32(links.Lo)}}
	}
	return frameTerm(t)
}

// frameTerm is a term of the bridge table.
func frameTerm(t rules.Term) exprs {
	frameDaddr := &expr.Payload{DestRegister: reg, Base: expr.PayloadBaseLLHeader, Offset: 0, Len: 6}
	switch t := t.(type) {
	case rules.EtherType:
		return exprs{meta(expr.MetaKeyPROTOCOL), equal(families[t.Family].etherType...)}
	case rules.NotTo:
		return exprs{frameDaddr, &expr.Cmp{Register: reg, Op: expr.CmpOpNeq, Data: t.MAC[:]}}
	case rules.NotGroup:
		return exprs{
			meta(expr.MetaKeyPKTTYPE),
			&expr.Cmp{Register: reg, Op: expr.CmpOpNeq, Data: []byte{unix.PACKET_BROADCAST}},
			&expr.Cmp{Register: reg, Op: expr.CmpOpNeq, Data: []byte{unix.PACKET_MULTICAST}},
		}
	case rules.SaddrIn:
		return inRange(saddr(rules.FamilyOf(t.Prefix.Addr()), reg), t.Prefix)
	case rules.DaddrIn:
		return inRange(daddr(rules.FamilyOf(t.Prefix.Addr()), reg), t.Prefix)
	case rules.SetEtherDaddr:
		return exprs{
			&expr.Immediate{Register: reg, Data: t.MAC[:]},
			&expr.Payload{OperationType: expr.PayloadWrite, SourceRegister: reg, Base: expr.PayloadBaseLLHeader, Offset: 0, Len: 6},
		}
	case rules.SetToHost:
		return exprs{&expr.Immediate{Register: reg, Data: []byte{unix.PACKET_HOST}}, setMeta(expr.MetaKeyPKTTYPE)}
	}
	if list := kernelTerm(t); list != nil {
		return list
	}
	panic(fmt.Sprintf("no expressions for %T: %s", t, t)) // of the constant rules: the first test that installs them finds it
}

func meta(key expr.MetaKey) expr.Any { return &expr.Meta{Key: key, Register: reg} }
func setMeta(key expr.MetaKey) expr.Any {
	return &expr.Meta{Key: key, SourceRegister: true, Register: reg}
}
func ct(key expr.CtKey) expr.Any  { return &expr.Ct{Key: key, Register: reg} }
func lookup(set string) expr.Any  { return &expr.Lookup{SourceRegister: reg, SetName: set} }
func equal(data ...byte) expr.Any { return &expr.Cmp{Register: reg, Op: expr.CmpOpEq, Data: data} }

func saddr(f rules.Family, to uint32) expr.Any { return address(f, families[f].saddr, to) }
func daddr(f rules.Family, to uint32) expr.Any { return address(f, families[f].daddr, to) }

func address(f rules.Family, offset, to uint32) expr.Any {
	return &expr.Payload{DestRegister: to, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: families[f].length}
}

func dport(to uint32) expr.Any {
	return &expr.Payload{DestRegister: to, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}
}

// frontendIn looks destination, protocol and port up together.
func frontendIn(t rules.Frontend) exprs {
	after := reg + families[t.Family].length/4
	return exprs{
		daddr(t.Family, reg),
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: after},
		dport(after + 1),
		lookup(t.Set.For(t.Family)),
	}
}

func inRange(load expr.Any, p netip.Prefix) exprs {
	length := p.Addr().BitLen() / 8
	return exprs{
		load,
		&expr.Bitwise{SourceRegister: reg, DestRegister: reg, Len: uint32(length), Mask: net.CIDRMask(p.Bits(), length*8), Xor: make([]byte, length)},
		equal(p.Masked().Addr().AsSlice()...),
	}
}

// masked compares what load puts into the register, under a mask.
func masked(load expr.Any, op rules.Op, value, mask uint32) exprs {
	compare := expr.CmpOpEq
	if op == rules.NotEqual {
		compare = expr.CmpOpNeq
	}
	return exprs{load, bits(mask, 0), &expr.Cmp{Register: reg, Op: compare, Data: binaryutil.NativeEndian.PutUint32(value)}}
}

func bits(and, xor uint32) expr.Any {
	return &expr.Bitwise{
		SourceRegister: reg, DestRegister: reg, Len: 4,
		Mask: binaryutil.NativeEndian.PutUint32(and), Xor: binaryutil.NativeEndian.PutUint32(xor),
	}
}

func tproxy(t rules.TProxy) exprs {
	return exprs{
		&expr.Immediate{Register: reg, Data: t.Family.Loopback().AsSlice()},
		&expr.Immediate{Register: reg + 4, Data: binaryutil.BigEndian.PutUint16(t.Port)},
		&expr.TProxy{Family: families[t.Family].proto, TableFamily: unix.NFPROTO_INET, RegAddr: reg, RegPort: reg + 4},
	}
}

func redirect(port uint16) exprs {
	const rangeProtoSpecified = 2 // NF_NAT_RANGE_PROTO_SPECIFIED of linux/netfilter/nf_nat.h
	return exprs{
		&expr.Immediate{Register: reg, Data: binaryutil.BigEndian.PutUint16(port)},
		&expr.Redir{RegisterProtoMin: reg, RegisterProtoMax: reg, Flags: rangeProtoSpecified},
	}
}

func verdict(v rules.Verdict) expr.Any {
	switch v {
	case rules.Accept:
		return &expr.Verdict{Kind: expr.VerdictAccept}
	case rules.Drop:
		return &expr.Verdict{Kind: expr.VerdictDrop}
	case rules.Return:
		return &expr.Verdict{Kind: expr.VerdictReturn}
	case rules.ResetTCP:
		return &expr.Reject{Type: unix.NFT_REJECT_TCP_RST}
	case rules.PortUnreachable:
		return &expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_PORT_UNREACH}
	case rules.Masquerade:
		return &expr.Masq{FullyRandom: true}
	}
	panic("no expression for " + string(v))
}

var hooks = map[rules.Point]*nftables.ChainHook{
	rules.Prerouting: nftables.ChainHookPrerouting, rules.Input: nftables.ChainHookInput,
	rules.Forward: nftables.ChainHookForward, rules.Output: nftables.ChainHookOutput,
	rules.Postrouting: nftables.ChainHookPostrouting,
}

// NewChain returns the chain as the kernel takes it; it is not made yet.
func NewChain(t *nftables.Table, c *rules.Chain) *nftables.Chain {
	out := &nftables.Chain{Name: c.Name, Table: t}
	if h := c.Hook; h != nil {
		out.Type, out.Hooknum = nftables.ChainType(h.Type), hooks[h.Point]
		out.Priority = nftables.ChainPriorityRef(nftables.ChainPriority(h.Priority))
	}
	return out
}

var datatypes = map[string]nftables.SetDatatype{
	"ipv4_addr": nftables.TypeIPAddr, "ipv6_addr": nftables.TypeIP6Addr,
	"inet_proto": nftables.TypeInetProto, "inet_service": nftables.TypeInetService,
	"ifname": nftables.TypeIFName, "mark": nftables.TypeMark,
	"classid": nftables.TypeClassID,
}

// NewSet returns the set as the kernel takes it; it is not made yet.
func NewSet(t *nftables.Table, s rules.Set) *nftables.Set {
	out := &nftables.Set{Table: t, Name: s.Name, Interval: s.Interval, HasTimeout: s.Timeout, Concatenation: len(s.Type) > 1}
	types := make([]nftables.SetDatatype, len(s.Type))
	for i, name := range s.Type {
		types[i] = datatypes[name]
	}
	out.KeyType = types[0]
	if out.Concatenation {
		out.KeyType = nftables.MustConcatSetType(types...)
	}
	if s.Type[0] == "ifname" {
		out.KeyByteOrder = binaryutil.NativeEndian
	}
	return mapped(out, s)
}
