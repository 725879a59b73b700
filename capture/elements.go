package capture

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/google/nftables"

	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/topology"
)

// chunk bounds one netlink message: its element list has a 16-bit length.
const chunk = 400

func frontendElement(f topology.Frontend) nftables.SetElement {
	key := f.Addr.AsSlice()
	key = append(key, byte(f.Protocol), 0, 0, 0)
	key = binary.BigEndian.AppendUint16(key, f.Port)
	return nftables.SetElement{Key: append(key, 0, 0)}
}

func hairpinElement(ip netip.Addr) nftables.SetElement {
	return nftables.SetElement{Key: slices.Concat(ip.AsSlice(), ip.AsSlice())}
}

// rangeElements are the two ends of an interval; a range that reaches the end
// of the address space has no second one.
func rangeElements(p netip.Prefix) []nftables.SetElement {
	elements := []nftables.SetElement{{Key: p.Masked().Addr().AsSlice()}}
	if end := lastAddr(p).Next(); end.IsValid() {
		elements = append(elements, nftables.SetElement{Key: end.AsSlice(), IntervalEnd: true})
	}
	return elements
}

func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	ip, _ := netip.AddrFromSlice(b)
	return ip
}

// bySet sorts elements into the sets of their family.
type bySet map[string][]nftables.SetElement

func (m bySet) frontends(set rules.SetName, list []topology.Frontend) {
	for _, f := range list {
		name := set.For(familyOf(f.Addr))
		m[name] = append(m[name], frontendElement(f))
	}
}

func (m bySet) hairpins(list []netip.Addr) {
	for _, ip := range list {
		name := rules.Hairpin.For(familyOf(ip))
		m[name] = append(m[name], hairpinElement(ip))
	}
}

func (m bySet) ranges(set rules.SetName, list []netip.Prefix) {
	for _, p := range list {
		name := set.For(familyOf(p.Addr()))
		m[name] = append(m[name], rangeElements(p)...)
	}
}
