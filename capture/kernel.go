package capture

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/google/nftables"
	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/topology"
)

// kernelPath serves frontends in the kernel: all of those that the agent gives
// it, of which Envoy takes some before while it is there.
type kernelPath struct {
	table   *kernelTable
	planner *plan.KernelPlanner
	pace    *plan.Pace
	ports   []netip.Addr // at which node ports are served
	own     []netip.Addr // the node's primary addresses
	knownBy
	view    *topology.View                  // that the planner has; nil before the first
	held    state                           // how the kernel's elements stand to the planner's
	goal    state                           // unsure before the first view
	kept    map[string]bool                 // frontends that a provisional view found otherwise; nil: nobody looked
	earlier *kernelHeld                     // what it found; nil from the first whole view on
	owed    bool                            // of it something could not be put back
	absent  *bool                           // what EnvoyAbsent said last; nil: nothing, and what is there stays
	moving  map[topology.Frontend]time.Time // that went here from Envoy, or from nobody, until when that matters
	laid    bool                            // or put back: who dialled before is to be looked for, once a whole view is in force
	dialled bool                            // he has been since, of a provisional view
	udp     plan.UDPServing                 // whose flows may be stale, once this is in force
	flows   *flows
	full    fullness
}

// newKernelPath is nil where the kernel path is off.
func newKernelPath(cfg plan.Config, flows *flows) *kernelPath {
	if cfg.Kernel == nil {
		return nil
	}
	return &kernelPath{table: newKernelTable(cfg), planner: plan.NewKernelPlanner(cfg, nil), pace: plan.NewPace(), knownBy: knownBy{homes: homes{}}, udp: plan.UDPServing{}, moving: map[topology.Frontend]time.Time{}, flows: flows}
}

// kernelFound reports whether a run before has left what the kernel path needs.
func (c *Capture) kernelFound() (bool, error) {
	if c.kernel == nil {
		return true, nil
	}
	t, err := c.kernel.table.found()
	if errors.Is(err, dump.ErrTorn) {
		err = nil // what was told is there
	}
	return t.HasSet(rules.KernelLayout), err
}

// setPods takes the ranges of this node's pods.
func (k *kernelPath) setPods(cfg plan.Config) {
	if k != nil {
		k.table.cfg = cfg
		k.replan(cfg)
	}
}

// removeKernel removes the kernel path, on or off.
func (c *Capture) removeKernel() error {
	c.leave = nil
	c.flows.stop()
	if c.kernel != nil {
		c.kernel.held, c.kernel.goal = unsure, unsure
		c.kernel.table.close()
	}
	_, err := removeKernel(c.table.conn)
	return err
}

// ofKernelTable takes what is about the table of the kernel path.
func ofKernelTable(m nl.Message) bool {
	attrs, err := nft.Attributes(m)
	if err != nil || m.Header.Type == nft.Message(unix.NFT_MSG_NEWGEN) {
		return false
	}
	for attrs.Next() {
		if attrs.Type() == unix.NFTA_TABLE_NAME { // and NFTA_SET_ELEM_LIST_TABLE
			return attrs.String() == rules.KernelName
		}
	}
	return false
}

// ofAnyTable takes what is about a table of ours or of the kernel path.
func ofAnyTable(m nl.Message) bool { return ofOurTables(m) || ofKernelTable(m) }

// installKernel puts the rules of the kernel path in place, or removes those of
// a run before that had it on.
func (c *Capture) installKernel() error {
	if c.kernel == nil {
		c.leaveKernel()
		return nil
	}
	if err := c.findAddresses(); err != nil {
		return err
	}
	return c.layKernel()
}

// serveInKernel has the kernel path follow a view.
func (c *Capture) serveInKernel(v *topology.View, provisional bool) error {
	if c.kernel == nil {
		return nil
	}
	changed := map[string][]plan.KernelFrontend{}
	for key := range v.Changed(c.kernel.view) {
		is, _ := v.Services.Get(key)
		changed[key.String()] = plan.KernelOf(is)
	}
	c.kernel.view = v
	return c.setKernel(changed, provisional)
}

// setKernel takes the frontends of the Services that the next view changes, by
// Service; none for one that is gone. It writes at once: what Envoy takes is
// taken before. A provisional view only adds, and the first whole one is
// compared with what is in force, and so is the next one after a failure.
func (c *Capture) setKernel(changed map[string][]plan.KernelFrontend, provisional bool) error {
	k, was := c.kernel, c.kernel.held
	for service, list := range k.taken(changed, was != synced || provisional) {
		k.planner.Set(service, list)
	}
	change := k.planner.Settle()
	maps.Copy(k.udp, change.UDP)
	if !provisional || k.goal != merged {
		k.kept = nil
	}
	if k.held, k.goal = unsure, synced; provisional {
		k.goal = merged
	} else {
		k.earlier, k.owed = nil, false
	}
	var err error
	if was != synced || provisional {
		err = c.writeKernel()
	} else {
		err = k.apply(change)
	}
	c.followed()
	return err
}

// apply writes a change of what is in step.
func (k *kernelPath) apply(change *plan.KernelChange) error {
	if !change.Empty() {
		if err := k.table.write(stepsOf(change), kernelChains{change.AddPicks, change.AddLists}, kernelChains{change.DelPicks, change.DelLists}); err != nil {
			return err
		}
		k.pace.Pay(change.Written(), k.planner, time.Now())
	}
	k.held = synced
	return nil
}

// writeKernel makes the kernel hold the plan, whatever it held before.
func (c *Capture) writeKernel() error {
	k := c.kernel
	if k.goal == unsure || k.held == k.goal {
		return nil // elements of a run before are nobody's to judge before the first view
	}
	_, err := k.compare()
	return err
}

// compare reads all elements, and writes what is different.
func (k *kernelPath) compare() (repaired bool, err error) {
	k.held = unsure
	have, err := readElements()
	if err != nil {
		return false, err
	}
	want, whole := kernelElements{}, k.planner.Whole()
	for _, come := range whole.AnyParts(partOf) {
		want.join(elementsOf(come))
	}
	gone, added := have.apart(want)
	need := kernelChains{whole.AddPicks, whole.AddLists}
	drop := k.table.unused(need)
	if repaired, err = k.table.refill(need.lists); err != nil {
		return repaired, err
	}
	if k.goal == merged {
		if k.kept == nil { // before this run wrote any: what it wrote it repairs
			chains, err := k.table.chainsThere()
			if err != nil {
				return repaired, err
			}
			k.kept, k.earlier = have.otherThan(want), &kernelHeld{have, chains}
		}
		added.leave(k.kept, have)
		gone, drop = gone.replacedBy(added), kernelChains{}
	}
	if gone.len()+added.len()+drop.len() > 0 {
		repaired = true
		list := steps(gone, added)
		if gone.len() == 0 {
			list = added.anew()
		}
		err = k.table.write(list, need, drop)
	}
	if err == nil {
		k.held = k.goal
	}
	return repaired, err
}

// replacedBy are the elements that others of the same key take the place of.
func (m kernelElements) replacedBy(added kernelElements) kernelElements {
	list := kernelElements{}
	for name, elements := range m {
		for key, e := range elements {
			if _, replaced := added[name][key]; replaced {
				list.put(name, key, e)
			}
		}
	}
	return list
}

// repairKernel puts back what somebody else removed or changed.
func (c *Capture) repairKernel() (bool, error) {
	k := c.kernel
	if k == nil {
		c.foundLooks(c.flows.again())
		return c.leaveKernel(), nil
	}
	ports := k.ports
	addresses := c.followAddresses() // what was known serves on
	absent := c.tellAbsent()
	repaired, err := c.repairKernelTable(!slices.Equal(ports, k.ports))
	if err == nil {
		err = c.takeWaiting()
	}
	c.followed()
	c.foundLooks(addresses, c.lookAtMemories(time.Now()), k.flows.again())
	return repaired, errors.Join(absent, err)
}

func (c *Capture) repairKernelTable(moved bool) (bool, error) {
	k := c.kernel
	k.table.follow(k.table.conn, ofKernelTable, nil) // repairRules says why not
	gen, err := k.table.conn.Generation()
	if err != nil {
		return false, err
	}
	if !moved && !k.owed && (k.goal == unsure || k.held == k.goal) && k.table.still(gen, time.Now()) {
		return false, nil
	}
	intact, err := k.table.intact()
	if err != nil {
		return false, err
	}
	if !intact {
		k.held = unsure
		k.mayHaveDialled()
		return true, c.layKernel()
	}
	repaired := false
	if k.goal != unsure {
		repaired, err = k.compare()
		if k.table.anew.due(err, time.Now()) { // something in a set is in the way
			repaired = true
			if _, err = k.table.install(true); err == nil {
				left := k.fill()
				_, err = k.compare()
				err = errors.Join(left, err)
			}
		}
		if err != nil {
			return true, err
		}
		k.table.anew.cured()
		paid, err := k.payBack()
		if err != nil {
			return true, err
		}
		repaired = repaired || paid
	}
	if !repaired {
		k.table.note(gen, time.Now())
	} else {
		k.mayHaveDialled()
	}
	return repaired && !moved, nil // whose address moved, nobody else did it
}

// EnvoyAbsent says whether new connections go to the kernel path, although Envoy
// serves their frontends: it is absent, hangs, or has not begun. Those of pods
// do so by themselves where nobody listens. Connections that are open stay where
// they are. Without a kernel path it does nothing.
func (c *Capture) EnvoyAbsent(absent bool) error {
	if c.kernel == nil {
		return nil
	}
	if c.kernel.absent = &absent; !c.installed {
		return nil
	}
	return c.tellAbsent()
}

// absent are the protocols of which Envoy gets no new connections; false where nobody
// has said so, and what is there stays.
func (c *Capture) absent() (elements []nftables.SetElement, said bool) {
	switch {
	case c.leave != nil:
		return c.leave.absent, true
	case c.kernel == nil || c.kernel.absent == nil:
		return nil, false
	case *c.kernel.absent:
		return absentElements(rules.Protocols()...), true
	}
	return nil, true
}

func (c *Capture) tellAbsent() error {
	elements, said := c.absent()
	if !said {
		return nil
	}
	changed, err := c.table.setAbsent(elements)
	if c.kernel != nil && err == nil {
		c.abandon(len(elements) > 0, changed)
	}
	return err
}

func absentElements(list ...topology.Protocol) (elements []nftables.SetElement) {
	for _, p := range list {
		elements = append(elements, nftables.SetElement{Key: []byte{byte(p)}})
	}
	return elements
}
