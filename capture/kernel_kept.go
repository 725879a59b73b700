package capture

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/topology"
)

// ofFrontends are the sets whose keys begin with a frontend.
var ofFrontends = bothOf(rules.Slots, rules.Ends, rules.Names, rules.Allowed, rules.Limited, rules.Policy, rules.Near, rules.Front)

// kernelHeld is what a table of the kernel path holds: elements, and the chains they lead to.
type kernelHeld struct {
	elements kernelElements
	chains   kernelChains
}

// putBack puts into a table that was made anew what the run before had left in it, until a
// whole view says what is to be there. What could not be written is owed.
func (k *kernelPath) putBack() error {
	if k.earlier == nil {
		return nil
	}
	err := k.table.write(k.earlier.elements.anew(), k.earlier.chains, kernelChains{})
	k.owed = err != nil
	return err
}

// payBack puts back what is owed. Frontends that are served by now stay as they are.
func (k *kernelPath) payBack() (paid bool, err error) {
	if !k.owed {
		return false, nil
	}
	have, err := readElements()
	if err != nil {
		return false, err
	}
	gone, added := have.apart(k.earlier.elements)
	added.leave(have.whole(), have)
	if err := k.table.write(steps(gone.replacedBy(added), added), k.earlier.chains, kernelChains{}); err != nil {
		return false, fmt.Errorf("put back what the run before had left: %w", err)
	}
	k.owed = false
	return true, nil
}

// frontLen is how long a frontend is in the key of a set.
func frontLen(set string) int {
	ip := netip.IPv4Unspecified()
	if strings.HasSuffix(set, "6") {
		ip = netip.IPv6Unspecified()
	}
	return len(frontendKey(topology.Frontend{Addr: ip}))
}

// otherThan are the frontends in force of which another plan has something else.
func (m kernelElements) otherThan(want kernelElements) map[string]bool {
	gone, added := m.apart(want)
	other, whole := map[string]bool{}, m.whole()
	for _, set := range ofFrontends {
		length := frontLen(set)
		for _, list := range []kernelElements{gone, added} {
			for key := range list[set] {
				if f := key[:length]; whole[f] {
					other[f] = true
				}
			}
		}
	}
	return other
}

// whole are the frontends in force with all endpoints that their picks choose among. One without
// is no work of a view: who filled an empty table ended, or failed, before all was there
// (plan.Anew), and it would serve by its first endpoint for as long as nobody adds the others.
func (m kernelElements) whole() map[string]bool {
	list := map[string]bool{}
	for i, set := range bothOf(rules.Front) {
		slots, near := m[bothOf(rules.Slots)[i]], m[bothOf(rules.Near)[i]]
		has := func(f, chain string, first uint32) bool {
			p, _ := rules.ParsePick(chain)
			for n := range uint32(p.Among) {
				if _, there := slots[f+string(binary.NativeEndian.AppendUint32(nil, first+n))]; !there {
					return false
				}
			}
			return true
		}
		for f, chain := range m[set] {
			local, there := near[f]
			list[f] = has(f, chain, 0) && (!there || has(f, local, plan.NearSlot))
		}
	}
	return list
}

// slotNumber is that of a slot's key.
func slotNumber(key string) uint32 { return binary.NativeEndian.Uint32([]byte(key[len(key)-4:])) }

// leave takes from what is to be added all that is about frontends that are in force
// and stay as they are.
func (m kernelElements) leave(frontends map[string]bool, have kernelElements) {
	whole := have.whole()
	for _, set := range ofFrontends {
		length := frontLen(set)
		maps.DeleteFunc(m[set], func(key, _ string) bool { return frontends[key[:length]] && whole[key[:length]] })
	}
}

// ofNeither is of a change what neither path serves any more: Envoy has nobody for it.
// What the kernel path was to take over is left out, and so is what is guarded.
func (k *kernelPath) ofNeither(change *plan.Change) *plan.Change {
	return &plan.Change{
		DelServe:  slices.DeleteFunc(slices.Clone(change.DelServe), k.planner.Has),
		DelSilent: slices.DeleteFunc(slices.Clone(change.DelSilent), k.planner.Has),
	}
}
