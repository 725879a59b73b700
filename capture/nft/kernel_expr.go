package nft

import (
	"slices"
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
		return append(frontend(t.Family), &expr.Lookup{SourceRegister: reg, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true, SetName: t.Map.For(t.Family)})
	case rules.FrontendFrom:
		return append(frontend(t.Family), saddr(t.Family, reg+words(t.Family)+2), lookup(t.Set.For(t.Family)))
	case rules.Among:
		return exprs{saddr(rules.FamilyOfList(t.List), reg), lookup(rules.RangesName(t.List))}
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
		return choose(t.Family, t.Pick)
	case rules.Unremembered:
		return choose(t.Family, t.Pick, &expr.Counter{})
	case rules.Remembered:
		return remembered(t.Family, t.Pick)
	case rules.Remember:
		return remember(t.Family, t.Pick)
	case rules.Named:
		return masked(meta(expr.MetaKeyPRIORITY), rules.Equal, plan.NameBits, plan.NameMask)
	case rules.Unname:
		return exprs{&expr.Immediate{Register: reg, Data: make([]byte, 4)}, setMeta(expr.MetaKeyPRIORITY)}
	}
	return nil
}

// words is how many registers an address fills.
func words(f rules.Family) uint32 { return families[f].length / 4 }

// frontend loads destination, protocol and port from reg on.
func frontend(f rules.Family) exprs {
	after := reg + words(f)
	return exprs{daddr(f, reg), &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: after}, dport(after + 1)}
}

// numbered loads the frontend, and a number of those among which is picked, from reg on.
func numbered(f rules.Family, p plan.Pick) exprs {
	return append(frontend(f), &expr.Numgen{Register: reg + words(f) + 2, Modulus: uint32(p.Among), Type: unix.NFT_NG_RANDOM, Offset: rules.First(p)})
}

// find looks up what begins in reg, and puts what a map has for it there.
func find(name string) expr.Any {
	return &expr.Lookup{SourceRegister: reg, DestRegister: reg, IsDestRegSet: true, SetName: name}
}

// dnat sends the connection to the endpoint in reg.
func dnat(f rules.Family) expr.Any {
	return &expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(families[f].proto), RegAddrMin: reg, RegProtoMin: reg + words(f), Specified: true}
}

// choose sends the connection to the endpoint of a slot, if there is one, after more.
func choose(f rules.Family, p plan.Pick, more ...expr.Any) exprs {
	return slices.Concat(numbered(f, p), exprs{find(rules.Slots.For(f))}, more, exprs{dnat(f)})
}

// What a map returns has no length to nft(8) 1.0.6, which ends with an assertion where it
// stands in a key, or is written into a set: it is carried as the packet's priority,
// which can be loaded.

// remembered carries the name of the endpoint that the client had.
func remembered(f rules.Family, p plan.Pick) exprs {
	return append(exprs{saddr(f, reg), find(memory(p)), setMeta(expr.MetaKeyPRIORITY)}, keep(f, p)...)
}

// remember carries the name of another. What the client had has to go first: an element
// that is there keeps what it leads to.
func remember(f rules.Family, p plan.Pick) exprs {
	const deleteElement = 2 // NFT_DYNSET_OP_DELETE of linux/netfilter/nf_tables.h
	return slices.Concat(write(f, p, deleteElement, 0),
		numbered(f, p), exprs{find(rules.Names.For(f)), setMeta(expr.MetaKeyPRIORITY)}, keep(f, p))
}

// keep remembers the name that is carried, and sends the connection to its endpoint.
func keep(f rules.Family, p plan.Pick) exprs {
	return slices.Concat(write(f, p, unix.NFT_DYNSET_OP_UPDATE, time.Duration(p.Sticky)*time.Second),
		frontend(f), exprs{carried(reg + words(f) + 2), find(rules.Ends.For(f)), dnat(f)})
}

// write changes what is remembered of the client. The kernel wants a value also of what it
// is to delete from a map, and looks at none.
func write(f rules.Family, p plan.Pick, op uint32, keep time.Duration) exprs {
	value := reg + words(f)
	return exprs{saddr(f, reg), carried(value), &expr.Dynset{SrcRegKey: reg, SrcRegData: value, SetName: memory(p), Operation: op, Timeout: keep}}
}

func carried(to uint32) expr.Any { return &expr.Meta{Key: expr.MetaKeyPRIORITY, Register: to} }

func memory(p plan.Pick) string {
	m, _ := p.Memory()
	return rules.MemoryName(m)
}
