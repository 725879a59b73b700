package capture

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/topology"
)

// Capture keeps the kernel of this node in line with views. It has one owner.
type Capture struct {
	cfg     plan.Config
	ctl     sysctls
	table   *table
	planner *plan.Planner
	synced  bool
	found   bool
	bridges []Bridge
}

// Host is where the capture finds what it needs of the node's files.
type Host struct {
	StateDir string // keeps the sysctl values that Cleanup puts back
	ProcSys  string // /proc/sys, or where a container may write to it
}

func (h Host) sysctls() sysctls {
	return sysctls{dir: filepath.Join(h.StateDir, "sysctl"), root: h.ProcSys}
}

// New prepares a capture; nothing is written yet.
func New(cfg plan.Config, host Host) (*Capture, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	t, err := newTable(cfg)
	if err != nil {
		return nil, err
	}
	return &Capture{cfg: cfg, ctl: host.sysctls(), table: t, planner: plan.NewPlanner(cfg)}, nil
}

// Install puts the rules, the routes and the guard over the given ranges in
// place. Elements of a run before stay in force until the first Apply.
func (c *Capture) Install(guard []netip.Prefix) error {
	list, err := podBridges(c.cfg)
	if err != nil {
		return err
	}
	if err := c.adopt(list); err != nil {
		return err
	}
	if err := installRoutes(c.cfg); err != nil {
		return err
	}
	if c.found, err = c.table.present(); err != nil {
		return err
	}
	if err := c.table.install(); err != nil {
		return err
	}
	if err := c.table.addGuard(guard); err != nil {
		return err
	}
	return c.table.setBridges(list)
}

// Tune sets what serves better with it and works without. A kept source is an
// address of a pod, from a port that the pod may use itself towards the same
// endpoint; early demux would give the pod's answers to Envoy's old socket,
// and the kernel drops in forward what has one.
func (c *Capture) Tune() error {
	if len(c.cfg.PodCIDRs) == 0 {
		return nil
	}
	_, err := c.ctl.set("net.ipv4.tcp_early_demux", "0") // of IPv6 too
	return err
}

// Apply writes what the next view changes. between is called after the
// removals and before the additions: what is refused must be refused before
// Envoy forgets it, and Envoy must know what it is to be handed.
//
// A provisional view comes from the last good state, which may be older than
// what is in force: it only adds.
func (c *Capture) Apply(v *topology.View, provisional bool, between func()) error {
	change := c.planner.Next(v)
	if provisional {
		between()
		return c.table.merge(c.planner.Plan())
	}
	if !c.synced {
		between()
		if err := c.table.sync(c.planner.Plan()); err != nil {
			return err
		}
		c.synced = true
		return nil
	}
	if change.Empty() {
		between()
		return nil
	}
	err := c.table.retract(change, c.planner)
	between()
	if err == nil {
		err = c.table.extend(change)
	}
	c.synced = err == nil // if not, the next Apply compares with what is really there
	return err
}

// Repair puts back what somebody else removed and tells whether it had to.
// It is cheap when nothing is missing.
func (c *Capture) Repair() (bool, error) {
	if _, err := c.RefreshBridges(); err != nil {
		return false, err
	}
	repaired, err := c.bridgeSysctls(c.bridges)
	if err != nil {
		return false, err
	}
	_ = c.Tune() // said at the start, where it does not work
	present, err := c.table.present()
	if err != nil {
		return false, err
	}
	if present && routesPresent(c.cfg) {
		return repaired, nil
	}
	if err := c.Install(c.planner.Guard()); err != nil {
		return true, err
	}
	if c.synced {
		return true, c.table.sync(c.planner.Plan())
	}
	return true, nil
}

// Found tells whether rules of a run before were in force at Install.
func (c *Capture) Found() bool { return c.found }

// Pods names the kind of pod network found: "bridged (cni0)" or "routed".
func (c *Capture) Pods() string {
	if len(c.cfg.PodCIDRs) == 0 {
		return "unknown (no pod CIDR: sources are not kept)"
	}
	if len(c.bridges) == 0 {
		return "routed"
	}
	if c.cfg.KeepBridgeNetfilter {
		return fmt.Sprintf("bridged (%s), redirected: bridge netfilter is kept", c.bridges[0].Name)
	}
	return fmt.Sprintf("bridged (%s)", c.bridges[0].Name)
}

// Cleanup removes every rule, route and changed sysctl of gridmesh. What is
// not there is no error.
func Cleanup(cfg plan.Config, host Host) error {
	t, err := newTable(cfg)
	if err != nil {
		return err
	}
	return errors.Join(t.remove(), removeBridge(), removeRoutes(cfg), host.sysctls().restore())
}
