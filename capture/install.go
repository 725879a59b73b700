package capture

import (
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/capture/links"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/routing"
)

// Install puts the rules, the routes and the guard over the given ranges in
// place. Elements of a run before stay in force until the first Extend; where
// the ranges of pods are not known yet all of its rules do, until SetPodCIDRs
// or the next Repair, for they may tell pods from others. Where the table that
// is there takes no guard, or knows no kernel path, it is made anew at once.
//
// Where it fails on a node that had no rules, it leaves none. Where somebody takes away
// meanwhile what was found, or what it wrote, it begins anew, with what it has read of a
// run before.
func (c *Capture) Install(guard []netip.Prefix) (err error) {
	c.known, c.earlier = plan.Disjoint(guard), nil
	bare := false // a try found no rules: what is there later is its own
	for range installTries {
		if c.found, err = c.table.exists(); err != nil {
			break
		}
		bare = bare || !c.found
		c.found = !bare
		if err = c.begin(); err != nil && !errors.Is(err, unix.ENOENT) || err == nil && c.stays() {
			break
		}
	}
	c.installed = err == nil
	if err != nil && bare {
		err = errors.Join(err, c.Remove())
	}
	return err
}

// installTries is how often a start begins anew while somebody flushes the rules. What is
// flushed more often is Repair's to put back.
const installTries = 10

// stays reports whether nobody has removed the table since it was written, as far as
// that can be seen.
func (c *Capture) stays() bool {
	there, err := c.table.exists()
	return there || err != nil
}

// begin is a try of Install.
func (c *Capture) begin() (err error) {
	if err = c.beginLeaving(); err != nil {
		return err
	}
	c.table.follow(c.table.conn, ofOurTables, c.host.Log)
	c.keepEarlier()
	c.tellGuard()
	wait := c.found && len(c.cfg.PodCIDRs) == 0
	if wait {
		if wait, err = c.kernelFound(); err != nil {
			return err
		}
	}
	if wait {
		c.outdated = true
		if err = c.table.guardBeside(c.known); err == nil {
			if _, err = c.look(links.Read); errors.Is(err, dump.ErrTorn) {
				err = nil // Repair looks again
			}
			err = errors.Join(err, c.findAddresses(), c.installRoutes())
			c.sayLater(c.tellAbsent())
		} else {
			wait = false // a table that takes no guard is not worth it
		}
	}
	if !wait {
		err = c.install()
	}
	return err
}

func (c *Capture) install() error {
	if err := c.installTable(false); err != nil {
		return err
	}
	all, unread := c.look(links.Read)
	if unread != nil && !errors.Is(unread, dump.ErrTorn) {
		return unread
	}
	if err := c.installRoutes(); err != nil {
		return err
	}
	if err := c.installKernel(); err != nil {
		return err
	}
	c.outdated = false
	list, err := podBridges(c.cfg, all)
	if err = errors.Join(unread, err); errors.Is(err, dump.ErrTorn) {
		c.sayLater(err) // the bridges' rules stay as they are until the next Repair
		return nil
	}
	if err != nil {
		return err
	}
	return c.follow(list)
}

func (c *Capture) installRoutes() error {
	c.ipv6 = routing.HasIPv6(c.host.ProcSys)
	return c.routing().Install()
}
