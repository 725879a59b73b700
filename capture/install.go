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
// meanwhile what was found, it begins anew.
func (c *Capture) Install(guard []netip.Prefix) (err error) {
	for range installTries {
		if err = c.begin(guard); !errors.Is(err, unix.ENOENT) {
			break
		}
	}
	return err
}

// installTries is how often a start begins anew while somebody flushes the rules.
const installTries = 10

// begin is a try of Install.
func (c *Capture) begin(guard []netip.Prefix) (err error) {
	if c.found, err = c.table.exists(); err != nil {
		return err
	}
	if err = c.beginLeaving(); err != nil {
		return err
	}
	c.table.follow(c.table.conn, ofOurTables, c.host.Log)
	c.known = plan.Disjoint(guard)
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
	c.installed = err == nil
	if err != nil && !c.found {
		err = errors.Join(err, c.Remove())
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
