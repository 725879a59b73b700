package peer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
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
	// UIDs are those of all nodes, by name; who has them understands nodes that know other
	// members of the unit.
	UIDs map[string]string
	// Live says that the cloud has this list, now: nodes without an uplink are given it.
	Live bool
}

// Member is a node of a unit, as another node passes it on.
type Member struct {
	Name  string       `json:"name"`
	UID   string       `json:"uid"`
	Addrs []netip.Addr `json:"addrs,omitempty"`
}

// unit is a Unit, prepared; it never changes.
type unit struct {
	Unit
	byAddr map[netip.Addr]string // of those that are one node's alone
	shared map[netip.Addr]bool   // the others
	where  string                // another one where who is in it is, or has other addresses
}

func newUnit(u Unit) *unit {
	p := &unit{Unit: u, byAddr: make(map[netip.Addr]string, len(u.Addrs)), shared: map[netip.Addr]bool{}}
	p.Addrs = make(map[string][]netip.Addr, len(u.Addrs))
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
	p.where = p.hash()
	return p
}

func (u *unit) has(name string) bool { _, ok := u.Addrs[name]; return ok }

// isNode reports whether an address is one of any node.
func (u *unit) isNode(a netip.Addr) bool { return u.byAddr[a] != "" || u.shared[a] }

// understands reports whether what a node of the unit says counts: it knows the same members,
// or it and this node are to each other who they are. A node without an uplink is not told who
// else comes and goes, and what it says of itself and of those it knows is as good as before.
func (u *unit) understands(m request) bool {
	return m.View == u.View || m.UID != "" && m.UID == u.UIDs[m.From] && m.ToUID == u.UIDs[u.Self]
}

// means reports whether a node that is asked about is the one that this node knows by that name.
func (u *unit) means(t requestTarget) bool {
	return u.has(t.Name) && (t.UID == "" || t.UID == u.UIDs[t.Name] && u.at(t.Name, t.Addr))
}

// hash is of who is in the unit, and where.
func (u *unit) hash() string {
	sum := sha256.New()
	for _, m := range u.list() {
		fmt.Fprintln(sum, m.Name, m.UID, m.Addrs)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// list is who is in the unit, to be passed on.
func (u *unit) list() []Member {
	list := make([]Member, 0, len(u.Addrs))
	for _, name := range slices.Sorted(maps.Keys(u.Addrs)) {
		addrs := u.Addrs[name]
		list = append(list, Member{name, u.UIDs[name], addrs[:min(len(addrs), MostAddrs)]})
	}
	return list
}

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
