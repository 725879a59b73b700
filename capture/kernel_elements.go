package capture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/topology"
)

// kernelSets are those with elements of a plan, in the order in which they are
// written: what leads to others comes last, and goes first.
var kernelSets = bothOf(rules.Slots, rules.Ends, rules.Names, rules.Allowed, rules.Limited, rules.Loops, rules.Policy, rules.Near, rules.Front)

// kernelElements are values by set and key, as they are written and read. There may be a
// hundred thousand of them: they are held as what they are, and made elements when they are written.
type kernelElements map[string]map[string]string

// leading are the sets whose elements lead to chains, and how.
var leading = leadingSets(map[rules.SetName]expr.VerdictKind{
	rules.Limited: expr.VerdictJump, rules.Policy: expr.VerdictJump, rules.Near: expr.VerdictGoto, rules.Front: expr.VerdictGoto,
})

func leadingSets(kinds map[rules.SetName]expr.VerdictKind) map[string]expr.VerdictKind {
	all := map[string]expr.VerdictKind{}
	for set, kind := range kinds {
		for _, name := range bothOf(set) {
			all[name] = kind
		}
	}
	return all
}

func elementsOf(e *plan.KernelElements) kernelElements {
	m := kernelElements{}
	eachOf(e, func(set, key, value string) bool {
		m.put(set, key, value)
		return true
	})
	return m
}

// eachOf hands elements on in the order of kernelSets, until do has enough.
func eachOf(e *plan.KernelElements, do func(set, key, value string) bool) bool {
	put := func(set rules.SetName, ip netip.Addr, key, value []byte) bool {
		return do(set.For(rules.FamilyOf(ip)), string(key), string(value))
	}
	lead := func(set rules.SetName, f topology.Frontend, chain string) bool {
		return do(set.For(rules.FamilyOf(f.Addr)), string(frontendKey(f)), chain)
	}
	return every(e.Slots, func(s plan.Slot) bool {
		return put(rules.Slots, s.Frontend.Addr, numberedKey(s.Frontend, s.Number), endpointValue(s.Endpoint))
	}) && every(e.Ends, func(x plan.End) bool {
		return put(rules.Ends, x.Frontend.Addr, numberedKey(x.Frontend, x.ID), endpointValue(x.Endpoint))
	}) && every(e.Names, func(x plan.Name) bool {
		return put(rules.Names, x.Frontend.Addr, numberedKey(x.Frontend, x.Number), binaryutil.NativeEndian.PutUint32(x.ID))
	}) && every(e.Selves, func(f topology.Frontend) bool {
		return put(rules.Allowed, f.Addr, append(frontendKey(f), f.Addr.AsSlice()...), nil)
	}) && every(e.Limits, func(l plan.Limit) bool {
		return lead(rules.Limited, l.Frontend, rules.ListName(l.List))
	}) && every(e.Loops, func(ip netip.Addr) bool {
		return put(rules.Loops, ip, hairpinElement(ip).Key, nil)
	}) && every(e.Policies, func(p plan.Policy) bool {
		return lead(rules.Policy, p.Frontend, rules.PolicyName(rules.FamilyOf(p.Frontend.Addr), p.Local))
	}) && every(e.Nears, func(f plan.Front) bool {
		return lead(rules.Near, f.Frontend, rules.PickName(f.Pick))
	}) && every(e.Fronts, func(f plan.Front) bool {
		return lead(rules.Front, f.Frontend, rules.PickName(f.Pick))
	})
}

func every[E any](list []E, do func(E) bool) bool {
	for _, e := range list {
		if !do(e) {
			return false
		}
	}
	return true
}

func (m kernelElements) put(name, key, value string) {
	if m[name] == nil {
		m[name] = map[string]string{}
	}
	m[name][key] = value
}

// join adds what another has.
func (m kernelElements) join(o kernelElements) {
	for name, list := range o {
		if m[name] == nil {
			m[name] = list
			continue
		}
		maps.Copy(m[name], list)
	}
}

// elementOf is what is written.
func elementOf(set, key, value string) nftables.SetElement {
	e := nftables.SetElement{Key: []byte(key)}
	if kind, leads := leading[set]; leads {
		e.VerdictData = &expr.Verdict{Kind: kind, Chain: value}
	} else if value != "" {
		e.Val = []byte(value)
	}
	return e
}

// valueOf is what an element of a set that was read leads to. What leads to a chain in another
// way than ours is told apart by a name that no chain has.
func valueOf(set string, e *nftables.SetElement) string {
	kind, leads := leading[set]
	switch {
	case !leads:
		return string(e.Val)
	case e.VerdictData == nil || e.VerdictData.Kind != kind:
		return "/"
	}
	return e.VerdictData.Chain
}

func frontendKey(f topology.Frontend) []byte { return frontendElement(f).Key }

func numberedKey(f topology.Frontend, n uint32) []byte {
	return append(frontendKey(f), binaryutil.NativeEndian.PutUint32(n)...)
}

// endpointValue is address and port, each filled up to four bytes.
func endpointValue(e netip.AddrPort) []byte {
	return append(binary.BigEndian.AppendUint16(e.Addr().AsSlice(), e.Port()), 0, 0)
}

// readElements reads the sets of a plan back.
func readElements() (kernelElements, error) {
	all := kernelElements{}
	for _, name := range kernelSets {
		list, err := readKernelSet(name)
		if err != nil {
			return nil, fmt.Errorf("read set %s: %w", name, err)
		}
		if len(list) > 0 {
			all[name] = list
		}
	}
	return all, nil
}

// errForAll is of an element that stands for all that no other does.
var errForAll = errors.New("an element stands for all, which none of ours does")

func readKernelSet(name string) (map[string]string, error) {
	return dump.Again(func() (map[string]string, error) {
		list := map[string]string{}
		err := nft.EachOfMap(rules.KernelName, name, func(e *nftables.SetElement) error {
			if len(e.Key) == 0 {
				return errForAll
			}
			list[string(e.Key)] = valueOf(name, e)
			return nil
		})
		return list, err
	})
}

// apart are the elements that only one of two has. Those of one key that lead
// elsewhere are in both answers.
func (m kernelElements) apart(want kernelElements) (gone, added kernelElements) {
	gone, added = kernelElements{}, kernelElements{}
	for _, name := range kernelSets {
		for key, e := range m[name] {
			if w, wanted := want[name][key]; !wanted || e != w {
				gone.put(name, key, e)
			}
		}
		for key, w := range want[name] {
			if e, has := m[name][key]; !has || e != w {
				added.put(name, key, w)
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

// partOf is how many elements of a change are held at once.
const partOf = 1 << 14

// stepsOf are those of a change, in the order of its parts.
func stepsOf(c *plan.KernelChange) iter.Seq[kernelStep] {
	return func(yield func(kernelStep) bool) {
		for gone, come := range c.Parts(partOf) {
			for s := range steps(elementsOf(gone), elementsOf(come)) {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// kernelStep is what has to be in one transaction: an element that goes, one that comes, or both
// in the place of each other.
type kernelStep struct {
	set, key   string
	gone, come bool
	value      string // of what comes
}

// steps are what leads from elements that are there to others, in an order in
// which every frontend is served all the time: no number that is picked is ever
// without an endpoint.
func steps(gone, added kernelElements) iter.Seq[kernelStep] {
	return func(yield func(kernelStep) bool) {
		for _, name := range kernelSets {
			for key, value := range added[name] {
				_, replaced := gone[name][key]
				if !yield(kernelStep{set: name, key: key, gone: replaced, come: true, value: value}) {
					return
				}
			}
		}
		for _, name := range slices.Backward(kernelSets) {
			for key := range gone[name] {
				if _, replaced := added[name][key]; !replaced && !yield(kernelStep{set: name, key: key, gone: true}) {
					return
				}
			}
		}
	}
}
