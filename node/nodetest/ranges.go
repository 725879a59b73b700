package nodetest

import (
	"net/netip"
	"slices"
)

// SetServiceCIDRs implements node.Rules.
func (c *Capture) SetServiceCIDRs(list []netip.Prefix) error {
	if err := c.call("SetServiceCIDRs"); err != nil {
		return err
	}
	c.ranges = slices.Clone(list)
	return nil
}

// SetPodCIDRs implements node.Rules.
func (c *Capture) SetPodCIDRs(list []netip.Prefix) error {
	if err := c.call("SetPodCIDRs"); err != nil {
		return err
	}
	c.pods = slices.Clone(list)
	if c.installed {
		c.outdated = false
		c.kernel.write(func(r *Rules) { r.Pods = c.pods })
	}
	return nil
}
