package capture

import (
	"errors"
	"slices"

	"github.com/gridmesh/gridmesh/capture/rules"
)

// Repair puts back what somebody else removed or changed, and what failed to be
// written, and reports whether it had to. Where nftables says that nobody wrote
// since, rules and elements are not read. What it cannot do is tried again by
// the next one; none of the steps waits for another.
func (c *Capture) Repair() (bool, error) {
	if !c.installed {
		return false, nil
	}
	moved, refresh := c.refresh()
	c.moved = c.moved || moved
	ruled, err := c.repairRules()
	served, kernel := c.repairKernel()
	routed, routes := c.routing().Repair()
	controlled, sysctls := c.bridgeSysctls(c.bridges)
	_ = c.Tune() // said at the start, where it does not work
	return ruled || served || routed || controlled, errors.Join(refresh, err, kernel, routes, sysctls)
}

// repairRules compares rules and elements with what they should be.
func (c *Capture) repairRules() (bool, error) {
	// Before the comparison: what is written meanwhile is the next one's.
	gen, err := c.table.conn.Generation()
	if err != nil {
		return false, err
	}
	if !c.Due() && gen == c.table.beside.after(c.table.gen) {
		c.table.gen = gen
		return false, nil
	}
	intact, err := c.rulesIntact()
	if err != nil {
		return false, err
	}
	if c.outdated || !intact {
		return true, errors.Join(c.install(), c.reapply())
	}
	repaired, err := c.repairElements()
	if err == nil && !repaired {
		c.table.gen = gen
	}
	return repaired, err
}

func (c *Capture) rulesIntact() (bool, error) {
	if same, err := c.table.intact(); err != nil || !same {
		return false, err
	}
	text, _, err := c.table.conn.Rendition(bridgeTable.Family)
	return text == c.lifting, err
}

// repairElements looks at every set, each against what it is known to hold.
func (c *Capture) repairElements() (bool, error) {
	own := ranges(rules.Pods, c.cfg.PodCIDRs)
	own.bridges(c.bridges)
	same, err := c.table.holds(own, append(bothOf(rules.Pods), rules.Bridges), true)
	if err != nil {
		return false, err
	}
	if !same {
		return true, errors.Join(c.table.replace(rules.Pods, own), c.table.setBridges(c.bridges), c.reapply())
	}
	exact := c.goal == synced
	guarded, err := c.table.holds(ranges(rules.Guard, c.guard()), bothOf(rules.Guard), exact)
	if err != nil {
		return false, err
	}
	// Elements of a run before are nobody's to judge before the first view.
	served, err := c.table.holds(wanted(c.planner.Plan()), slices.Clone(served), exact)
	switch {
	case err != nil:
		return false, err
	case c.goal == unsure && !guarded:
		return c.table.addGuard(c.guard())
	case c.goal == unsure:
		return false, nil
	case guarded && served && c.held == c.goal:
		return false, nil
	}
	return true, c.write()
}
