package capture

import (
	"errors"
	"net/netip"
	"time"

	"github.com/google/nftables"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/topology"
)

// leaving is the way back from a run that had the kernel path on. The table of that run
// serves on, and the rules know of it, until Envoy has what it takes over: for UDP
// that is a socket for each frontend, which it opens in its own time. Until then
// new flows of UDP go where they went. Then the table goes, and flows of UDP begin
// anew, with Envoy. Open connections of TCP stay where they are: the rules stay as
// they are until the next start.
type leaving struct {
	absent []nftables.SetElement // what Envoy gets no new connections of
	since  time.Time             // when the first whole view was in force; zero before
	over   bool
}

// leavePatience is how long Envoy has for its sockets: it has none for what it does not serve.
const leavePatience = 30 * time.Second

// beginLeaving sees whether there is anything to leave. A table of another layout, or
// one that is another process's, serves nobody by our rules.
func (c *Capture) beginLeaving() error {
	if c.kernel != nil || c.leave != nil || !c.found {
		return nil
	}
	found, err := c.table.conn.TableOf(nftables.TableFamilyINet, rules.KernelName)
	if err != nil && !errors.Is(err, dump.ErrTorn) {
		return err
	}
	if !found.HasSet(rules.KernelLayout) || found.Flags&nft.TableOwner != 0 {
		return nil
	}
	c.cfg.Kernel = &plan.Kernel{} // for rules that leave its connections to the kernel path
	c.table.have(c.cfg)
	c.leave = &leaving{absent: absentElements(topology.UDP)}
	if own, err := c.table.conn.Table(c.table.nft.Family); err == nil && own.HasSet(rules.Absent) {
		had, _, err := c.table.read(rules.Absent)
		if err != nil {
			return err
		}
		_, more := compare(c.leave.absent, had[rules.Absent])
		c.leave.absent = append(c.leave.absent, more...)
	}
	return nil
}

// leaveKernel removes the table of the kernel path, which is off, as soon as nobody needs
// it. It reports whether it was one that nobody of ours made.
func (c *Capture) leaveKernel() bool {
	if c.leave != nil {
		c.sayLater(c.tellAbsent())
		if c.takeOver(); !c.leave.over {
			return false
		}
	}
	removed, err := removeKernel(c.table.conn)
	c.sayLater(err) // it may fail for good, and nothing else waits for it
	c.foundKernelTable(err)
	return removed
}

// takeOver has Envoy serve what the kernel path did, once it can.
func (c *Capture) takeOver() {
	if c.leave == nil || c.leave.over || c.goal != synced || c.held != synced {
		return
	}
	if c.leave.since.IsZero() {
		c.leave.since = time.Now()
	}
	var own []netip.AddrPort
	for _, f := range c.planner.Plan().Serve {
		if f.Protocol == topology.UDP {
			own = append(own, f.AddrPort())
		}
	}
	if len(own) > 0 && time.Since(c.leave.since) < leavePatience {
		if there, err := listeningUDP(own); err != nil || !there {
			return
		}
	}
	c.leave.absent = nil
	if err := c.tellAbsent(); err != nil {
		c.sayLater(err) // and the next Repair tries again
		return
	}
	c.leave.over = true
	c.leaveKernel()
	flows := plan.UDPServing{}
	for _, f := range own {
		flows[f] = []netip.AddrPort{f} // by nobody else than who is dialled
	}
	c.flows.tell(flows)
}
