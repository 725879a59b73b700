package nodetest

import (
	"net/netip"
	"slices"

	"github.com/gridmesh/gridmesh/capture"
)

// SetServiceCIDRs implements node.Rules.
func (c *Capture) SetServiceCIDRs(list []netip.Prefix) error {
	if err := c.call("SetServiceCIDRs"); err != nil {
		return err
	}
	c.ranges = slices.Clone(list)
	return nil
}

// RememberIPs implements node.Rules.
func (c *Capture) RememberIPs(before capture.IPs) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.paths {
		return
	}
	c.ips.Said, c.ips.Homes = slices.Concat(c.ips.Said, before.Said), slices.Concat(before.Homes, c.ips.Homes)
}

// SayIPs implements node.Rules. What was said before is forgotten.
func (c *Capture) SayIPs(now []netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paths {
		c.ips.Said = slices.Clone(now)
	}
}

// IPs implements node.Rules. Tests ask, and know addresses, beside the owner.
func (c *Capture) IPs() capture.IPs {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ips
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
