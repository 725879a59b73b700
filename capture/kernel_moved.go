package capture

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/google/nftables"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/topology"
)

// movedFor is how long what Envoy's path left is looked for of a frontend that a view gave to the
// kernel while Envoy is there: conntrack knows what ended before for ten seconds, and most
// connections that Envoy has still end within the time.
const movedFor = time.Minute

// noteMoved takes what a view takes from Envoy's path and what it gives to it, and has what
// Envoy's path left looked for where the kernel serves any of it.
func (c *Capture) noteMoved(gone, come []topology.Frontend) {
	if c.kernel == nil {
		return
	}
	if left, back := c.kernel.moves(gone, come, time.Now()); left || back {
		absent, _ := c.absent()
		c.abandon(len(absent) > 0, left)
	}
}

// moves notes them, and reports whether any went to the kernel, or back to Envoy.
func (k *kernelPath) moves(gone, come []topology.Frontend, now time.Time) (left, back bool) {
	for _, f := range come {
		if _, moved := k.moving[f]; moved {
			delete(k.moving, f)
			back = true
		}
	}
	for _, f := range gone {
		if f.Protocol == topology.TCP && k.planner.Has(f) {
			k.moving[f], left = now.Add(movedFor), true
		}
	}
	return left, back
}

// followed has flows forgotten, once a view is in force: of UDP only a whole one, for what only
// adds takes no flow from where it is. Who dialled before is on none, and looked for at the first
// view, which without a cloud is a provisional one, and at the first whole one, which may have more.
func (c *Capture) followed() {
	k := c.kernel
	if k.goal == unsure || k.held != k.goal {
		return
	}
	whole := k.goal == synced
	if k.laid && (whole || !k.dialled) {
		k.laid, k.dialled = !whole, true
		c.noteDialled(whole)
	}
	if whole && len(k.udp) > 0 {
		k.flows.tell(k.udp)
		k.udp = plan.UDPServing{}
	}
}

// mayHaveDialled has those looked for who dialled what was not in force.
func (k *kernelPath) mayHaveDialled() { k.laid, k.dialled = true, false }

// noteDialled has those looked for who dialled before there were rules, as pods do that start
// before the node's agent: conntrack knows them for two minutes, renewed by each of their SYNs,
// as who is not translated, and no rule would lead them, or who has their port next, anywhere.
// By UDP it does for as long as they send. Envoy gets who is not translated, too.
func (c *Capture) noteDialled(whole bool) {
	k, now := c.kernel, time.Now()
	tcp, udp := k.planner.Serving(topology.TCP), k.planner.ServingUDP()
	if !whole {
		for _, f := range k.leftBefore() {
			if f.Protocol == topology.UDP {
				udp[f.AddrPort()] = []netip.AddrPort{plan.Anybody}
			} else {
				tcp = append(tcp, f)
			}
		}
	}
	envoys := map[topology.Frontend]bool{}
	for _, f := range c.planner.Plan().Serve {
		envoys[f] = true
		if f.Protocol == topology.UDP {
			delete(udp, f.AddrPort())
		}
	}
	for _, f := range tcp {
		if !envoys[f] {
			k.moving[f] = now.Add(movedFor)
		}
	}
	if len(tcp) > 0 {
		absent, _ := c.absent()
		c.abandon(len(absent) > 0, true)
	}
	if whole {
		maps.Copy(k.udp, udp)
		return
	}
	for f, serving := range udp {
		if len(serving) > 0 {
			udp[f] = []netip.AddrPort{plan.Anybody}
		}
	}
	k.flows.tell(udp)
}

// leftBefore are the frontends that the run before serves by the kernel, of TCP and UDP.
func (k *kernelPath) leftBefore() (list []topology.Frontend) {
	if k.earlier == nil {
		return nil
	}
	for _, of := range rules.Families {
		for key, chain := range k.earlier.elements[rules.Front.For(of)] {
			f, ok := frontendOf(nftables.SetElement{Key: []byte(key)}, of)
			if _, serves := rules.ParsePick(chain); ok && serves && f.Protocol != topology.SCTP {
				list = append(list, f)
			}
		}
	}
	return list
}

// movedSince are the frontends that went to the kernel within the time.
func (k *kernelPath) movedSince(now time.Time) []topology.Frontend {
	maps.DeleteFunc(k.moving, func(_ topology.Frontend, until time.Time) bool { return now.After(until) })
	return slices.Collect(maps.Keys(k.moving))
}

// movedUntil is when the last of them is over.
func (k *kernelPath) movedUntil() (last time.Time) {
	for _, until := range k.moving {
		if until.After(last) {
			last = until
		}
	}
	return last
}

// frontendsOf are the frontends in the sets of one name; what is none is left out.
func (m bySet) frontendsOf(set rules.SetName) (list []topology.Frontend) {
	for _, f := range rules.Families {
		for _, e := range m[set.For(f)] {
			if front, ok := frontendOf(e, f); ok {
				list = append(list, front)
			}
		}
	}
	return list
}

// frontendOf is what frontendElement was made of.
func frontendOf(e nftables.SetElement, of rules.Family) (f topology.Frontend, ok bool) {
	length := of.Loopback().BitLen() / 8
	if len(e.Key) != length+8 {
		return f, false
	}
	addr, _ := netip.AddrFromSlice(e.Key[:length])
	return topology.Frontend{Addr: addr, Protocol: topology.Protocol(e.Key[length]), Port: binary.BigEndian.Uint16(e.Key[length+4:])}, true
}
