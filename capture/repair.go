package capture

import (
	"errors"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/capture/rules"
)

// Repair puts back what somebody else removed or changed, and what failed to be
// written, and reports whether it had to. Where nftables says that nobody wrote
// into our tables since, rules and elements are read every few minutes only. What it
// cannot do is tried again by the next one; none of the steps waits for another.
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
	c.table.follow(c.table.conn, ofOurTables, c.host.Log)
	// Before the comparison: what is written meanwhile is the next one's.
	gen, err := c.table.conn.Generation()
	if err != nil {
		return false, err
	}
	if !c.Due() && c.table.still(gen, time.Now()) {
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
	if c.table.anew.due(err, time.Now()) { // something in a set is in the way
		return true, errors.Join(c.installTable(true), c.reapply())
	}
	if err != nil {
		return true, err
	}
	c.table.anew.cured()
	if !repaired {
		c.table.note(gen, time.Now())
	}
	return repaired, nil
}

func (c *Capture) rulesIntact() (bool, error) {
	if same, err := c.table.intact(); err != nil || !same {
		return false, err
	}
	text, err := textOf(c.table.conn, bridgeTable.Family)
	return text == c.lifting, err
}

// repairElements looks at every set, each against what it is known to hold.
func (c *Capture) repairElements() (bool, error) {
	all := slices.Concat(bothOf(rules.Pods, rules.Guard, rules.Over), []string{rules.Bridges, rules.Layout}, served)
	have, tidied, err := c.table.tidied(all...)
	if err != nil {
		return false, err
	}
	own := ranges(rules.Pods, c.cfg.PodCIDRs)
	own.bridges(c.bridges)
	if !have.are(own, append(bothOf(rules.Pods), rules.Bridges), true) {
		return true, errors.Join(c.table.replace(rules.Pods, own), c.table.setBridges(c.bridges), c.reapply())
	}
	exact := c.goal == synced
	guarded := have.are(ranges(rules.Guard, c.guard()), bothOf(rules.Guard), exact)
	want := c.wanted()
	served := have.are(want, served, exact)
	switch {
	case c.goal == unsure && (!guarded || !served):
		return true, c.table.merge(want, c.guard())
	case c.goal == unsure: // what else is there nobody can judge before the first view
		return tidied, nil
	case guarded && served && c.held == c.goal:
		return tidied, nil
	}
	return true, c.write()
}
