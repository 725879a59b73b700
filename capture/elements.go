package capture

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/plan"
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

// prefixes turns the elements of an interval set, beginnings and ends, back
// into the ranges that rangeElements made them of.
func prefixes(list []nftables.SetElement) (found []netip.Prefix) {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b nftables.SetElement) int { return bytes.Compare(a.Key, b.Key) })
	for i, e := range list {
		first, ok := netip.AddrFromSlice(e.Key)
		if e.IntervalEnd || !ok {
			continue
		}
		last := lastAddr(netip.PrefixFrom(first, 0)) // of the address space
		// The end of one may be the beginning of the next.
		if j := slices.IndexFunc(list[i:], func(o nftables.SetElement) bool { return bytes.Compare(o.Key, e.Key) > 0 }); j > 0 {
			end, _ := netip.AddrFromSlice(list[i+j].Key)
			last = end.Prev()
		}
		for bits := range first.BitLen() + 1 {
			if p := netip.PrefixFrom(first, bits); p.Masked() == p && lastAddr(p).Compare(last) <= 0 {
				found = append(found, p)
				break
			}
		}
	}
	return found
}

func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	ip, _ := netip.AddrFromSlice(b)
	return ip
}

func bridgeElement(b rules.PodBridge) nftables.SetElement {
	name := make([]byte, unix.IFNAMSIZ)
	copy(name, b.Name)
	return nftables.SetElement{Key: name}
}

// served are the sets of a plan's frontends and endpoints.
var served = bothOf(rules.Serve, rules.Silent, rules.Hairpin)

func bothOf(sets ...rules.SetName) (names []string) {
	for _, set := range sets {
		for _, f := range rules.Families {
			names = append(names, set.For(f))
		}
	}
	return names
}

// wanted are the elements of those sets.
func wanted(p *plan.Plan) bySet {
	m := bySet{}
	m.frontends(rules.Serve, p.Serve)
	m.frontends(rules.Silent, p.Silent)
	m.hairpins(p.Hairpin)
	return m
}

// bySet sorts elements into the sets of their family.
type bySet map[string][]nftables.SetElement

func (m bySet) frontends(set rules.SetName, list []topology.Frontend) {
	for _, f := range list {
		name := set.For(rules.FamilyOf(f.Addr))
		m[name] = append(m[name], frontendElement(f))
	}
}

func (m bySet) bridges(list []rules.PodBridge) {
	for _, b := range list {
		m[rules.Bridges] = append(m[rules.Bridges], bridgeElement(b))
	}
}

func (m bySet) hairpins(list []netip.Addr) {
	for _, ip := range list {
		name := rules.Hairpin.For(rules.FamilyOf(ip))
		m[name] = append(m[name], hairpinElement(ip))
	}
}

func (m bySet) ranges(set rules.SetName, list []netip.Prefix) {
	for _, p := range list {
		name := set.For(rules.FamilyOf(p.Addr()))
		m[name] = append(m[name], rangeElements(p)...)
	}
}

// prefixes are the ranges that a set of both families holds.
func (m bySet) prefixes(set rules.SetName) (list []netip.Prefix) {
	for _, f := range rules.Families {
		list = append(list, prefixes(m[set.For(f)])...)
	}
	return list
}
