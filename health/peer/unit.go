package peer

import (
	"maps"
	"net/netip"
	"slices"
)

// Unit is who is in the unit.
type Unit struct {
	Self string // this node's name
	View string // vote.View.ID
	// Addrs are the InternalIPs of all nodes by name, this one's too. The first is dialled,
	// and any may send.
	Addrs map[string][]netip.Addr
}

// unit is a Unit, prepared; it never changes.
type unit struct {
	Unit
	byAddr map[netip.Addr]string // of those that are one node's alone
	shared map[netip.Addr]bool   // the others
}

func newUnit(u Unit) *unit {
	p := &unit{Unit{u.Self, u.View, make(map[string][]netip.Addr, len(u.Addrs))}, make(map[netip.Addr]string, len(u.Addrs)), map[netip.Addr]bool{}}
	for name, addrs := range u.Addrs {
		p.Addrs[name] = nil
		for _, a := range addrs {
			if a = a.Unmap(); !a.IsValid() {
				continue
			}
			p.Addrs[name] = append(p.Addrs[name], a)
			if other, ok := p.byAddr[a]; ok && other != name {
				p.shared[a] = true
			}
			p.byAddr[a] = name
		}
	}
	maps.DeleteFunc(p.byAddr, func(a netip.Addr, _ string) bool { return p.shared[a] })
	return p
}

func (u *unit) has(name string) bool { _, ok := u.Addrs[name]; return ok }

// isNode reports whether an address is one of any node.
func (u *unit) isNode(a netip.Addr) bool { return u.byAddr[a] != "" || u.shared[a] }

// at reports whether an address is a node's.
func (u *unit) at(name string, a netip.Addr) bool { return slices.Contains(u.Addrs[name], a) }

// addr is the address by which a node is dialled; not valid where it has none.
func (u *unit) addr(name string) (a netip.Addr) {
	if addrs := u.Addrs[name]; len(addrs) > 0 {
		a = addrs[0]
	}
	return a
}

// from is the address of this node that a node expects to hear; not valid where there is
// none of the same family.
func (u *unit) from(to netip.Addr) netip.Addr {
	for _, a := range u.Addrs[u.Self] {
		if a.Is4() == to.Is4() {
			return a
		}
	}
	return netip.Addr{}
}
