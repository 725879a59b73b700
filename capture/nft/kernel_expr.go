package nft

import (
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/links"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
)

// mapped completes a set that is a map, or that rules write into.
func mapped(out *nftables.Set, s rules.Set) *nftables.Set {
	out.Dynamic, out.Size = s.Dynamic, s.Size
	if s.Data == nil {
		return out
	}
	out.IsMap, out.DataType = true, nftables.TypeVerdict
	if s.Data[0] != "verdict" {
		types := make([]nftables.SetDatatype, len(s.Data))
		for i, name := range s.Data {
			types[i] = datatypes[name]
		}
		out.DataType = nftables.MustConcatSetType(types...)
	}
	return out
}

// kernelTerm is a term of the kernel path as the kernel takes it; nil for none.
func kernelTerm(t rules.Term) exprs {
	switch t := t.(type) {
	case rules.Dispatch:
		return append(frontend(t.Family, reg), &expr.Lookup{SourceRegister: reg, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true, SetName: t.Map.For(t.Family)})
	case rules.FrontendFrom:
		return append(frontend(t.Family, reg), saddr(t.Family, reg+words(t.Family)+2), lookup(t.Set.For(t.Family)))
	case rules.NotSaddr:
		return exprs{saddr(t.Family, reg), &expr.Lookup{SourceRegister: reg, SetName: t.Set.For(t.Family), Invert: true}}
	case rules.FromNode:
		return exprs{&expr.Fib{Register: reg, ResultADDRTYPE: true, FlagSADDR: true}, equal(binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)...)}
	case rules.FromLo:
		return exprs{meta(expr.MetaKeyIIF), equal(binaryutil.NativeEndian.PutUint32(links.Lo)...)}
	case rules.DNATed:
		const ipsDstNAT = 1 << 5 // linux/netfilter/nf_conntrack_common.h
		return masked(ct(expr.CtKeySTATUS), rules.NotEqual, 0, ipsDstNAT)
	case rules.InAbsent:
		return exprs{meta(expr.MetaKeyL4PROTO), lookup(rules.Absent)}
	case rules.Choose:
		return append(choose(t.Family, t.Pick, reg), dnat(t.Family, reg))
	case rules.Remembered:
		return remembered(t.Family, t.Pick)
	case rules.Remember:
		return memory(t.Family, t.Pick)
	}
	return nil
}

// words is how many registers an address fills.
func words(f rules.Family) uint32 { return families[f].length / 4 }

// frontend loads destination, protocol and port from a register on.
func frontend(f rules.Family, at uint32) exprs {
	after := at + words(f)
	return exprs{daddr(f, at), &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: after}, dport(after + 1)}
}

// choose puts one of the frontend's endpoints into a register.
func choose(f rules.Family, p plan.Pick, at uint32) exprs {
	number := &expr.Numgen{Register: at + words(f) + 2, Modulus: uint32(p.Among), Type: unix.NFT_NG_RANDOM, Offset: rules.First(p)}
	return append(frontend(f, at), number, find(rules.Slots.For(f), at, at))
}

// find looks what begins in one register up in a map, and puts it into another.
func find(name string, key, to uint32) expr.Any {
	return &expr.Lookup{SourceRegister: key, DestRegister: to, IsDestRegSet: true, SetName: name}
}

// dnat sends the connection to the endpoint in a register.
func dnat(f rules.Family, at uint32) expr.Any {
	return &expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(families[f].proto), RegAddrMin: at, RegProtoMin: at + words(f), Specified: true}
}

// client puts source and session side by side, in registers from reg on, and
// says which comes after them.
func client(f rules.Family, p plan.Pick) (list exprs, after uint32) {
	session := reg + words(f)
	list = append(frontend(f, reg), find(rules.Session.For(f), reg, session))
	if p.Near {
		list = append(list, &expr.Bitwise{SourceRegister: session + 1, DestRegister: session + 1, Len: 4, Mask: []byte{255, 255, 255, 255}, Xor: []byte{0, 0, 0, 1}})
	}
	return append(list, saddr(f, reg)), session + 2
}

// remembered looks the endpoint up beside the session, which is how Members has it.
func remembered(f rules.Family, p plan.Pick) exprs {
	list, endpoint := client(f, p)
	return append(list,
		find(rules.Sticky.For(f), reg, endpoint),
		&expr.Lookup{SourceRegister: endpoint - 2, SetName: rules.Members.For(f)},
		memorize(f, p, endpoint),
		dnat(f, endpoint))
}

// memory writes anew: an element that is there would keep what it leads to.
func memory(f rules.Family, p plan.Pick) exprs {
	list, endpoint := client(f, p)
	const deleteElement = 2 // NFT_DYNSET_OP_DELETE of linux/netfilter/nf_tables.h
	// The kernel wants a value also of what it is to delete from a map, and
	// looks at none.
	list = append(list, &expr.Dynset{SrcRegKey: reg, SrcRegData: reg, SetName: rules.Sticky.For(f), Operation: deleteElement})
	list = append(list, choose(f, p, endpoint)...)
	return append(list, memorize(f, p, endpoint), dnat(f, endpoint))
}

func memorize(f rules.Family, p plan.Pick, endpoint uint32) expr.Any {
	return &expr.Dynset{SrcRegKey: reg, SrcRegData: endpoint, SetName: rules.Sticky.For(f), Operation: unix.NFT_DYNSET_OP_UPDATE, Timeout: time.Duration(p.Sticky) * time.Second}
}
