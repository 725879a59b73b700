package capture

import (
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/topology"
)

// kernelSets are those with elements of a plan, in the order in which they are
// written: what leads to others comes last, and goes first.
var kernelSets = bothOf(rules.Slots, rules.Ends, rules.Names, rules.Allowed, rules.Limited, rules.Loops, rules.Policy, rules.Near, rules.Front)

// kernelElements are elements by set and key. The key of a range has both ends.
type kernelElements map[string]map[string]nftables.SetElement

func elementsOf(e *plan.KernelElements) kernelElements {
	m := kernelElements{}
	for _, s := range e.Slots {
		m.add(rules.Slots, s.Frontend.Addr, nftables.SetElement{Key: numberedKey(s.Frontend, s.Number), Val: endpointValue(s.Endpoint)})
	}
	for _, x := range e.Ends {
		m.add(rules.Ends, x.Frontend.Addr, nftables.SetElement{Key: numberedKey(x.Frontend, x.ID), Val: endpointValue(x.Endpoint)})
	}
	for _, x := range e.Names {
		m.add(rules.Names, x.Frontend.Addr, nftables.SetElement{Key: numberedKey(x.Frontend, x.Number), Val: binaryutil.NativeEndian.PutUint32(x.ID)})
	}
	for _, f := range e.Selves {
		m.add(rules.Allowed, f.Addr, nftables.SetElement{Key: append(frontendKey(f), f.Addr.AsSlice()...)})
	}
	for _, l := range e.Limits {
		m.verdict(rules.Limited, l.Frontend, expr.VerdictJump, rules.ListName(l.List))
	}
	for _, ip := range e.Loops {
		m.add(rules.Loops, ip, hairpinElement(ip))
	}
	for _, p := range e.Policies {
		m.verdict(rules.Policy, p.Frontend, expr.VerdictJump, rules.PolicyName(rules.FamilyOf(p.Frontend.Addr), p.Local))
	}
	for _, f := range e.Nears {
		m.verdict(rules.Near, f.Frontend, expr.VerdictGoto, rules.PickName(f.Pick))
	}
	for _, f := range e.Fronts {
		m.verdict(rules.Front, f.Frontend, expr.VerdictGoto, rules.PickName(f.Pick))
	}
	return m
}

func (m kernelElements) add(set rules.SetName, ip netip.Addr, e nftables.SetElement) {
	m.put(set.For(rules.FamilyOf(ip)), e)
}

func (m kernelElements) put(name string, e nftables.SetElement) {
	if m[name] == nil {
		m[name] = map[string]nftables.SetElement{}
	}
	m[name][string(e.Key)+string(e.KeyEnd)] = e
}

func (m kernelElements) verdict(set rules.SetName, f topology.Frontend, kind expr.VerdictKind, chain string) {
	m.add(set, f.Addr, nftables.SetElement{Key: frontendKey(f), VerdictData: &expr.Verdict{Kind: kind, Chain: chain}})
}

func frontendKey(f topology.Frontend) []byte { return frontendElement(f).Key }

func numberedKey(f topology.Frontend, n uint32) []byte {
	return append(frontendKey(f), binaryutil.NativeEndian.PutUint32(n)...)
}

// endpointValue is address and port, each filled up to four bytes.
func endpointValue(e netip.AddrPort) []byte {
	return append(binary.BigEndian.AppendUint16(e.Addr().AsSlice(), e.Port()), 0, 0)
}

// sameValue reports whether elements of one key lead to the same.
func sameValue(a, b nftables.SetElement) bool {
	if a.VerdictData == nil || b.VerdictData == nil {
		return a.VerdictData == b.VerdictData && string(a.Val) == string(b.Val)
	}
	return *a.VerdictData == *b.VerdictData
}

// readElements reads the sets of a plan back.
func readElements() (kernelElements, error) {
	all := kernelElements{}
	for _, name := range kernelSets {
		list, err := nft.ReadMap(rules.KernelName, name)
		if err != nil {
			return nil, fmt.Errorf("read set %s: %w", name, err)
		}
		for _, e := range list {
			if len(e.Key) == 0 {
				return nil, fmt.Errorf("read set %s: an element stands for all, which none of ours does", name)
			}
			all.put(name, e)
		}
	}
	return all, nil
}

// apart are the elements that only one of two has. Those of one key that lead
// elsewhere are in both answers.
func (m kernelElements) apart(want kernelElements) (gone, added kernelElements) {
	gone, added = kernelElements{}, kernelElements{}
	for _, name := range kernelSets {
		for key, e := range m[name] {
			if w, wanted := want[name][key]; !wanted || !sameValue(e, w) {
				gone.put(name, e)
			}
		}
		for key, w := range want[name] {
			if e, has := m[name][key]; !has || !sameValue(e, w) {
				added.put(name, w)
			}
		}
	}
	return gone, added
}

func (m kernelElements) len() (n int) {
	for _, list := range m {
		n += len(list)
	}
	return n
}

// kernelStep is what has to be in one transaction: an element that goes, one that comes, or both
// in the place of each other.
type kernelStep struct {
	set        string
	gone, come *nftables.SetElement
}

// steps are what leads from elements that are there to others, in an order in
// which every frontend is served all the time: no number that is picked is ever
// without an endpoint. They are made one by one: there may be a hundred thousand.
func steps(gone, added kernelElements) iter.Seq[kernelStep] {
	bare := func(e nftables.SetElement) *nftables.SetElement {
		return &nftables.SetElement{Key: e.Key, KeyEnd: e.KeyEnd}
	}
	return func(yield func(kernelStep) bool) {
		for _, name := range kernelSets {
			for _, key := range slices.Sorted(maps.Keys(added[name])) {
				e := added[name][key]
				s := kernelStep{set: name, come: &e}
				if old, replaced := gone[name][key]; replaced {
					s.gone = bare(old)
				}
				if !yield(s) {
					return
				}
			}
		}
		for _, name := range slices.Backward(kernelSets) {
			for _, key := range slices.Sorted(maps.Keys(gone[name])) {
				if _, replaced := added[name][key]; !replaced && !yield(kernelStep{set: name, gone: bare(gone[name][key])}) {
					return
				}
			}
		}
	}
}
