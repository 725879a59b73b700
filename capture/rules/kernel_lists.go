package rules

import (
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"

	"github.com/gridmesh/gridmesh/capture/plan"
)

// Each list of ranges is a set of its own: what becomes of one costs nothing for others, and
// it goes as a whole. A chain for each, which frontends lead to, asks it.
const (
	listPrefix = "list"
	// Ranges begins the names of those sets.
	Ranges SetName = "ranges"
)

// Among matches sources in the ranges of a list.
type Among struct{ List plan.List }

// ListName is the chain of a list: who gets through it may dial.
func ListName(l plan.List) string { return listPrefix + string(FamilyOfList(l)) + "_" + l.Name() }

// RangesName is the set of its ranges.
func RangesName(l plan.List) string { return Ranges.For(FamilyOfList(l)) + "_" + l.Name() }

// FamilyOfList is of the addresses in it.
func FamilyOfList(l plan.List) Family {
	if l.IPv6 {
		return IPv6
	}
	return IPv4
}

// ParseList is the list of a chain that ListName named.
func ParseList(chain string) (l plan.List, ok bool) {
	l, ok = parseList(listPrefix, chain)
	return l, ok && ListName(l) == chain
}

// ParseRanges is the list of a set that RangesName named.
func ParseRanges(set string) (l plan.List, ok bool) {
	l, ok = parseList(string(Ranges), set)
	return l, ok && RangesName(l) == set
}

func parseList(prefix, name string) (l plan.List, ok bool) {
	family, id, _ := strings.Cut(strings.TrimPrefix(name, prefix), "_")
	l.IPv6 = family == string(IPv6)
	raw, err := hex.DecodeString(id)
	return l, err == nil && copy(l.ID[:], raw) == len(l.ID)
}

// ListSet is the set of a list.
func ListSet(l plan.List) Set {
	return Set{Name: RangesName(l), Type: []string{"ipv" + string(FamilyOfList(l)) + "_addr"}, Interval: true}
}

// ListChain lets through who is in a list. It leads to nothing that is large: the kernel checks what every
// chain leads to once for each way there is, whenever an element leads to a chain.
func ListChain(l plan.List) Chain {
	return Chain{Name: ListName(l), Rules: []Rule{{Among{l}, Return}, {Jump{admitChain(FamilyOfList(l))}}}}
}

// ParseApart reports whether a set is told of apart from the table: a memory, or ranges.
func ParseApart(set string) bool {
	_, memory := ParseMemory(set)
	_, ranges := ParseRanges(set)
	return memory || ranges
}

func (t Among) String() string {
	return FamilyOfList(t.List).keyword() + " saddr @" + RangesName(t.List)
}

func (t Among) apply(w *walker) outcome {
	i := slices.IndexFunc(w.lists(), func(r plan.Ranges) bool { return r.List == t.List })
	in := i >= 0 && slices.ContainsFunc(w.lists()[i].Of, func(p netip.Prefix) bool { return p.Contains(w.Packet.Src) })
	return w.found(FamilyOfList(t.List), Ranges, in)
}

// lists are those of the kernel path.
func (w *walker) lists() []plan.Ranges {
	if w.kernel == nil {
		return nil
	}
	return w.kernel.Lists
}
