package capture

import (
	"errors"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/routing"
	"github.com/gridmesh/gridmesh/capture/rules"
	"github.com/gridmesh/gridmesh/capture/sysctl"
	"github.com/gridmesh/gridmesh/topology"
)

// Capture keeps the kernel of this node in line with views. It has one owner.
type Capture struct {
	cfg       plan.Config
	host      Host
	ctl       sysctl.Records
	table     *table
	planner   *plan.Planner
	kernel    *kernelPath // nil where it is off
	leave     *leaving    // of a run before that had it on; nil: of none
	flows     *flows
	own       ownFindings
	node      nodeNetwork
	removed   *routing.Removals
	bridges   []rules.PodBridge
	lifting   string                         // what rendition said of the bridges' rules when they were written
	moved     bool                           // Repair followed the node's network, and RefreshBridges has not said so
	unsaid    error                          // of bridges and sysctls; the next RefreshBridges says it
	ipv6      bool                           // lo has it; the routes follow
	validates bool                           // a link validates sources by their marks
	looked    time.Time                      // when all links were read
	known     []netip.Prefix                 // guarded until a whole view says what is
	earlier   bySet                          // what a run before left in force; nil from the first whole view on
	guarded   atomic.Pointer[[]netip.Prefix] // what guard said last, for Clients
	pods      atomic.Pointer[[]netip.Prefix] // cfg.PodCIDRs, for who inspects the node
	found     bool                           // rules of a run before, at Install
	installed bool
	raised    bool         // the kernel's table of connections is as wanted
	outdated  bool         // the rules are to be installed again, for cfg is another
	held      state        // how the kernel's elements stand to the planner's
	goal      state        // what the next Extend leads to; unsure before the first view
	pending   *plan.Change // what the next Extend adds; nil: it compares
	viewed    bool         // a plan was held

	handed      []topology.Frontend // what the next Extend hands to Envoy
	provisional bool                // the view of the last Retract
}

// state is how the elements in the kernel stand to those of the planner.
type state int

const (
	unsure state = iota // never written, or the last write failed
	merged              // all of them are there, and perhaps more
	synced              // they are the same
)

// Host is what the capture has of the node: where its files are, and its log.
type Host struct {
	StateDir string        // keeps the sysctl values that Cleanup puts back
	ProcSys  string        // /proc/sys, or where a container may write to it
	Log      *slog.Logger  // nil: nothing is said
	Tracking Tracking      // of connections, at least
	Patience time.Duration // with the disk of StateDir, before something is set without a record; 0: 2 s
}

func (h Host) sysctls() sysctl.Records {
	return sysctl.New(filepath.Join(h.StateDir, SysctlDir), h.ProcSys, setsSysctl).Patient(h.Patience)
}

// New prepares a capture; nothing is opened, read or written yet.
func New(cfg plan.Config, host Host) (*Capture, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Capture{cfg: cfg, host: host, ctl: host.sysctls(), table: newTable(cfg), planner: plan.NewPlanner(cfg), node: thisNode, removed: routing.NewRemovals(host.Log)}
	c.flows = newFlows(c.foundConntrack)
	c.kernel = newKernelPath(cfg, c.flows)
	c.pods.Store(&cfg.PodCIDRs)
	return c, nil
}

// routing is what should be routed at the moment.
func (c *Capture) routing() routing.Routing {
	return routing.Routing{Config: c.cfg, ProcSys: c.host.ProcSys, Services: c.guard(), Validates: c.validates, Removed: c.removed}
}

// guard is what is guarded: nothing that was known at the start is forgotten
// before a whole view says so.
func (c *Capture) guard() []netip.Prefix {
	if c.goal == synced {
		return c.planner.Guard()
	}
	return plan.Disjoint(slices.Concat(c.known, c.planner.Guard()))
}

func (c *Capture) tellGuard() {
	list := c.guard()
	c.guarded.Store(&list)
}

// installTable puts the table in place, and the guard before anything else is.
func (c *Capture) installTable(anew bool) error {
	begin := beginning{elements: c.wanted(), alone: c.goal == synced, anew: anew}
	begin.elements.ranges(rules.Guard, c.guard())
	begin.elements.bridges(c.bridges)
	if absent, said := c.absent(); said {
		begin.elements[rules.Absent] = absent
	}
	if err := c.table.install(c.cfg, begin); err != nil {
		return err
	}
	return c.table.addGuard(c.guard())
}

// SetServiceCIDRs takes other ranges than New, before Install: what is guarded by them then is
// guarded until the end, and what was by the others is not.
func (c *Capture) SetServiceCIDRs(list []netip.Prefix) error {
	cfg := c.cfg
	cfg.ServiceCIDRs = slices.Clone(list)
	if err := cfg.Validate(); err != nil {
		return err
	}
	c.cfg, c.planner = cfg, c.planner.With(cfg)
	return nil
}

// SetPodCIDRs takes the ranges of this node's pods where they become known
// after New. Once installed, the rules are put in place again with them, by
// the next Repair where that fails; elements stay in force. Tune may have
// something to do afterwards.
func (c *Capture) SetPodCIDRs(list []netip.Prefix) error {
	if slices.Equal(list, c.cfg.PodCIDRs) {
		return nil
	}
	cfg := c.cfg
	cfg.PodCIDRs = slices.Clone(list)
	if err := cfg.Validate(); err != nil {
		return err
	}
	c.cfg, c.planner, c.pending = cfg, c.planner.With(cfg), nil
	c.kernel.setPods(cfg)
	c.pods.Store(&cfg.PodCIDRs)
	if !c.installed {
		return nil
	}
	c.outdated = true
	return errors.Join(c.install(), c.reapply())
}

// Retract takes the next view and removes from the kernel what it no longer
// serves; Extend then adds what it serves more. Between the two the caller
// tells Envoy: what is refused must be refused before Envoy forgets it, and
// Envoy must know what it is to be handed. A pod that may dial itself goes with
// Extend: until Envoy knows, it is led there.
//
// The kernel path follows before either, so that what moves there from Envoy is
// served all the time; what moves to Envoy stays behind it.
//
// A provisional view comes from the last good state, which may be older than
// what is in force: it only adds. The first whole view is compared with what
// is in force by Extend, and so is the next one after a failure.
func (c *Capture) Retract(v *topology.View, provisional bool) error {
	change := c.planner.Next(v)
	was := c.held
	switch {
	case provisional:
		c.handed = nil
	case was == unsure || c.provisional:
		c.handed = c.planner.Plan().Serve
	default:
		c.handed = change.AddServe
	}
	c.held, c.pending, c.provisional = unsure, nil, provisional
	c.goal = synced
	if provisional {
		c.goal = merged
	} else {
		c.known, c.earlier = nil, nil
	}
	c.tellGuard()
	if err := c.serveInKernel(v, provisional); err != nil {
		c.goal = merged // what it was to take over stays with Envoy, whoever writes next
		if !provisional && was == synced {
			err = errors.Join(err, c.table.retract(c.kernel.ofNeither(change), c.planner))
		}
		return err
	}
	if provisional || was != synced {
		return nil
	}
	c.pending = change
	err := c.table.retract(change, c.planner)
	c.noteMoved(change.DelServe, change.AddServe)
	if err != nil {
		c.pending = nil // not to be trusted: Extend, if it comes to that, compares
		return err
	}
	return nil
}

// Handed are the frontends that Extend hands to Envoy and that it was not handed before, and more
// where that is not known: at the first whole view, and after a write that failed. Of a provisional
// view there are none.
func (c *Capture) Handed() []topology.Frontend {
	if c.held != unsure {
		return nil
	}
	return c.handed
}

// Extend adds what the view of the last Retract serves more, once Envoy was told.
func (c *Capture) Extend() error {
	if c.held != unsure {
		return nil
	}
	if c.pending == nil {
		return c.write()
	}
	err := c.table.extend(c.pending)
	c.pending = nil
	if err == nil {
		c.nowHeld()
	}
	return err
}

// nowHeld notes that the kernel holds the plan.
func (c *Capture) nowHeld() {
	c.held = c.goal
	c.takeOver()
	if list, said := c.absent(); !c.viewed && c.kernel != nil && said && len(list) > 0 {
		c.abandon(true, false) // the switch came before the first view
	}
	c.viewed = true
}

// write makes the kernel hold the plan, whatever it held before. Where what it
// holds is in the way, the table is made anew, with the plan.
func (c *Capture) write() error {
	err := c.writeElements()
	if c.goal != unsure && c.table.anew.due(err, time.Now()) {
		if err = c.installTable(true); err == nil {
			err = c.writeElements()
		}
	}
	c.held = unsure
	if err == nil {
		c.table.anew.cured()
		c.nowHeld()
	}
	return err
}

func (c *Capture) writeElements() error {
	switch c.goal {
	case merged:
		return c.table.merge(c.wanted(), c.guard())
	case synced:
		want := c.planner.Plan()
		gone, err := c.table.sync(want)
		c.noteMoved(gone.frontendsOf(rules.Serve), want.Serve)
		return err
	}
	return nil
}

// reapply puts the elements back after the rules were.
func (c *Capture) reapply() error {
	if c.goal == unsure {
		return nil // there has been no view yet
	}
	err := c.write()
	if err != nil {
		c.outdated = true // for the next Repair
	}
	return err
}

// Found reports whether rules of a run before were in force at Install.
func (c *Capture) Found() bool { return c.found }

// IPv6 reports whether the node has IPv6. It is known from Install on, and
// RefreshBridges and Repair follow it.
func (c *Capture) IPv6() bool { return c.ipv6 }
