package capture

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/routing"
	"github.com/gridmesh/gridmesh/capture/rules"
)

// Earlier is what a run before left in force.
type Earlier struct {
	Rules bool           // there are any, of this layout
	Pods  []netip.Prefix // the ranges of this node's pods, as those rules know them
	Guard []netip.Prefix // what they guard; after Install also what that added
}

// Earlier reads what a run before left in force. It changes nothing, and says
// the same after Install, until the ranges of pods are others.
func (c *Capture) Earlier() (e Earlier, err error) {
	if e.Rules, err = c.table.exists(); err != nil || !e.Rules {
		return e, err
	}
	have, _, err := c.table.read(append(bothOf(rules.Pods), bothOf(rules.Guard)...)...)
	if errors.Is(err, unix.ENOENT) { // it went meanwhile
		return Earlier{}, nil
	}
	if err != nil {
		return e, err
	}
	e.Pods, e.Guard = plan.Disjoint(have.prefixes(rules.Pods)), plan.Disjoint(have.prefixes(rules.Guard))
	return e, nil
}

// keepEarlier has what a run before left in force put back where somebody removes it,
// until a whole view says what is to be. What cannot be read stays as it is, and no guard
// waits for it. What a try of the start has read is not less because of what the next one
// finds.
func (c *Capture) keepEarlier() {
	if !c.found {
		return
	}
	found, err := c.table.conn.Table(c.table.nft.Family)
	var there bySet
	if err == nil {
		there, err = c.table.those(found, append(bothOf(rules.Guard), served...))
	}
	c.sayLater(err)
	if c.earlier == nil {
		c.earlier = there
	}
	c.known = plan.Disjoint(slices.Concat(c.known, there.prefixes(rules.Guard)))
}

// wanted are the frontends and endpoints that are to be in force.
func (c *Capture) wanted() bySet {
	all := bySet{}
	if c.goal != unsure {
		all = wanted(c.planner.Plan())
	}
	if c.goal == synced {
		return all
	}
	for _, name := range served {
		_, more := compare(all[name], c.earlier[name])
		all[name] = slices.Concat(all[name], more)
	}
	return all
}

// Due reports whether the next Repair writes for a reason of our own: rules of
// a run before are in force as they were found, or a write has failed.
func (c *Capture) Due() bool {
	return c.outdated || c.held == unsure && c.goal != unsure || c.kernel != nil && c.kernel.held != c.kernel.goal
}

// Permitted reports an error where this process may not read the rules of its network,
// and so cannot write them either: unix.EPERM. It asks one short question.
func Permitted() error {
	conn := nft.Open()
	defer conn.Close()
	_, err := conn.Generation()
	return err
}

// Installed reports whether tables or policy rules of gridmesh are in this network.
func Installed(cfg plan.Config) (bool, error) {
	conn, err := nftables.New()
	if err != nil {
		return false, fmt.Errorf("look for gridmesh's tables: %w", err)
	}
	tables, err := conn.ListTables()
	if err != nil {
		return false, fmt.Errorf("look for gridmesh's tables: %w", err)
	}
	for _, t := range tables {
		if t.Name == rules.Name || t.Name == rules.KernelName {
			return true, nil
		}
	}
	found, err := routing.Any(cfg)
	if err != nil {
		return false, fmt.Errorf("look for gridmesh's policy rules: %w", err)
	}
	return found, nil
}
