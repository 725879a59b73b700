package capture

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/plan"
)

// rulePriority lies before the main table (32766) and after the local one (0).
const rulePriority = 1000

var netFamilies = []struct {
	family int
	any    *net.IPNet
}{
	{unix.AF_INET, &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}},
	{unix.AF_INET6, &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}},
}

// installRoutes delivers marked packets to this node. It may be called again
// at any time.
func installRoutes(cfg plan.Config) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	for _, f := range netFamilies {
		if err := netlink.RouteReplace(localRoute(cfg, lo, f.any)); err != nil {
			return fmt.Errorf("add local route for %s to table %d: %w", f.any, cfg.Table, err)
		}
		if err := netlink.RuleAdd(markRule(cfg, f.family)); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("add rule for mark %#x/%#x: %w", cfg.Mark, cfg.Mask, err)
		}
	}
	return nil
}

func removeRoutes(cfg plan.Config) error {
	var errs []error
	for _, f := range netFamilies {
		rules, err := netlink.RuleListFiltered(f.family, &netlink.Rule{Table: cfg.Table}, netlink.RT_FILTER_TABLE)
		errs = append(errs, err)
		for i := range rules {
			rules[i].Family = f.family
			errs = append(errs, netlink.RuleDel(&rules[i]))
		}
		routes, err := netlink.RouteListFiltered(f.family, &netlink.Route{Table: cfg.Table}, netlink.RT_FILTER_TABLE)
		errs = append(errs, err)
		for i := range routes {
			errs = append(errs, netlink.RouteDel(&routes[i]))
		}
	}
	return errors.Join(errs...)
}

func routesPresent(cfg plan.Config) bool {
	for _, f := range netFamilies {
		rules, err := netlink.RuleListFiltered(f.family, &netlink.Rule{Table: cfg.Table}, netlink.RT_FILTER_TABLE)
		if err != nil || len(rules) == 0 {
			return false
		}
		routes, err := netlink.RouteListFiltered(f.family, &netlink.Route{Table: cfg.Table}, netlink.RT_FILTER_TABLE)
		if err != nil || len(routes) == 0 {
			return false
		}
	}
	return true
}

func localRoute(cfg plan.Config, lo netlink.Link, dst *net.IPNet) *netlink.Route {
	return &netlink.Route{
		LinkIndex: lo.Attrs().Index, Dst: dst, Table: cfg.Table,
		Type: unix.RTN_LOCAL, Scope: unix.RT_SCOPE_HOST,
	}
}

func markRule(cfg plan.Config, family int) *netlink.Rule {
	r := netlink.NewRule()
	mask := cfg.Mask
	r.Family, r.Mark, r.Mask, r.Table, r.Priority = family, cfg.Mark, &mask, cfg.Table, rulePriority
	return r
}
