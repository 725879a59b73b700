package routing

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/capture/links"
	"github.com/gridmesh/gridmesh/capture/plan"
)

// Routing is what leads captured packets to this node. It is a question, and
// keeps nothing.
type Routing struct {
	Config    plan.Config
	ProcSys   string         // /proc/sys, or where a container may read it
	Services  []netip.Prefix // the guarded ranges
	Validates bool           // a link validates sources by their marks
	Removed   *Removals      // says which routes were removed; nil: nobody does
}

// Install puts rules and routes in place, of every IP version that the node
// has. It may be called again at any time, and removes what another choice of
// flags left. Where neither a rule of ours leads to the table nor a route of ours is
// in it, routes of others that are in the way there are an error. In a table of ours
// they go, as they do by Repair.
func (r Routing) Install() error {
	if err := r.free(); err != nil {
		return err
	}
	var errs []error
	for _, f := range r.families() {
		errs = append(errs, install(r.Config, f, r.rules(f)))
		_ = r.clear(f) // Repair says why not, and tries again
	}
	return errors.Join(errs...)
}

// free is an error where the table is somebody else's: they have routes in it
// that are in the way, no rule of ours leads there, and none of ours is left there, as
// whoever flushes rules leaves it.
func (r Routing) free() error {
	var theirs []string
	for _, f := range r.families() {
		list, err := ourRules(r.Config, f)
		if err != nil {
			return err
		}
		for _, rule := range list {
			if rule.table() == r.Config.Table {
				return nil
			}
		}
		routes, err := routesOf(r.Config.Table, f)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(routes, func(o netlink.Route) bool { return isOurs(o) && o.Protocol == routeProtocol }) {
			return nil
		}
		routes = r.inTheWay(f, routes)
		for i := range routes {
			theirs = append(theirs, fmt.Sprint(routes[i].Dst))
		}
	}
	if len(theirs) == 0 {
		return nil
	}
	return fmt.Errorf("route table %d has routes of somebody else that lead captured packets elsewhere (to %s): choose another table with --route-table, or remove them (ip route show table %d)",
		r.Config.Table, strings.Join(theirs[:min(len(theirs), 10)], ", "), r.Config.Table)
}

// Repair is Install where something is missing, or too much, and reports
// whether it was.
func (r Routing) Repair() (repaired bool, err error) {
	var errs []error
	for _, f := range r.families() {
		changed, err := r.repair(f)
		repaired, errs = repaired || changed, append(errs, err)
	}
	return repaired, errors.Join(append(errs, r.unvalidated())...)
}

// repair reads the table once.
func (r Routing) repair(f netFamily) (repaired bool, err error) {
	want := r.rules(f)
	list, unknown := ourRules(r.Config, f)
	routes, unread := routesOf(r.Config.Table, f)
	err = errors.Join(unknown, unread)
	missing, extra := differ(list, want)
	if err == nil && (missing || len(extra) > 0 || !slices.ContainsFunc(routes, isOurs)) {
		repaired = true
		err = install(r.Config, f, want)
	}
	if unread == nil && len(r.inTheWay(f, routes)) > 0 {
		repaired = true
		err = errors.Join(err, r.clear(f))
	}
	return repaired, err
}

// Any reports whether this network has rules of ours.
func Any(cfg plan.Config) (bool, error) {
	for _, f := range []netFamily{inet4, inet6} {
		list, err := ourRules(cfg, f)
		if err != nil && !noFamily(err) {
			return false, err
		}
		if len(list) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// rulePriority is the first after the table of local addresses (0): whatever
// else a node routes by, a captured packet has its way already.
const rulePriority = 1

// routeProtocol says of rules and routes that they are gridmesh's. Those of an
// earlier choice of flags are known by it.
const routeProtocol = 103

// netFamily is an IP version as routing knows it.
type netFamily struct {
	family int
	any    *net.IPNet
}

var (
	inet4 = netFamily{unix.AF_INET, &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}}
	inet6 = netFamily{unix.AF_INET6, &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}}
)

// families are the IP versions that this node has at the moment.
func (r Routing) families() []netFamily {
	if HasIPv6(r.ProcSys) {
		return []netFamily{inet4, inet6}
	}
	return []netFamily{inet4}
}

// HasIPv6 reports whether lo can deliver IPv6. The kernel may know none of it
// (ipv6.disable=1), or have it switched off for now (disable_ipv6).
func HasIPv6(procSys string) bool {
	off, err := os.ReadFile(filepath.Join(procSys, "net/ipv6/conf/lo/disable_ipv6"))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	return strings.TrimSpace(string(off)) == "0"
}

// install delivers marked packets of a family to this node.
func install(cfg plan.Config, f netFamily, want []*netlink.Rule) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	if err := netlink.RouteReplace(localRoute(cfg.Table, lo.Attrs().Index, f)); err != nil {
		return fmt.Errorf("add local route for %s to table %d: %w", f.any, cfg.Table, err)
	}
	// Those that are wanted before the others go; and once more, for the kernel
	// takes none beside one that differs in what it does not compare.
	if err := addRules(cfg, want); err != nil {
		return err
	}
	return errors.Join(removeStale(cfg, f, want), addRules(cfg, want))
}

func addRules(cfg plan.Config, want []*netlink.Rule) error {
	for _, r := range want {
		if err := netlink.RuleAdd(r); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("add rule for mark %#x/%#x: %w", cfg.Mark, cfg.Mask, err)
		}
	}
	return nil
}

// removeStale removes our rules but those that are wanted, and the routes of
// tables that only they led to. The wanted ones are there before.
func removeStale(cfg plan.Config, f netFamily, want []*netlink.Rule) error {
	list, err := ourRules(cfg, f)
	if err != nil {
		return err
	}
	var errs []error
	_, extra := differ(list, want)
	for _, r := range extra {
		errs = append(errs, r.remove())
		if table := r.table(); table != cfg.Table && table != 0 {
			errs = append(errs, removeRoute(table, f))
		}
	}
	return errors.Join(errs...)
}

// Remove removes our rules and routes of both families, and nobody else's.
func Remove(cfg plan.Config) error {
	var errs []error
	for _, f := range []netFamily{inet4, inet6} {
		list, err := ourRules(cfg, f)
		if noFamily(err) {
			continue
		}
		errs = append(errs, err)
		tables := []int{cfg.Table}
		for _, r := range list {
			errs = append(errs, r.remove())
			if table := r.table(); table != 0 && !slices.Contains(tables, table) {
				tables = append(tables, table)
			}
		}
		for _, table := range tables {
			errs = append(errs, removeRoute(table, f))
		}
	}
	return errors.Join(errs...)
}

// removeRoute removes our route from a table, where it is there.
func removeRoute(table int, f netFamily) error {
	routes, err := routesOf(table, f)
	errs := []error{err}
	for i := range routes {
		if !isOurs(routes[i]) {
			continue
		}
		if err := netlink.RouteDel(&routes[i]); !errors.Is(err, unix.ESRCH) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// inTheWay lists routes of our table that lead captured packets elsewhere: nobody
// else has a use for those. The number of the table may be another's too, whose
// other routes are left alone.
func (r Routing) inTheWay(f netFamily, all []netlink.Route) []netlink.Route {
	return slices.DeleteFunc(slices.Clone(all), func(route netlink.Route) bool {
		if route.Dst == nil {
			return isOurs(route)
		}
		ip, _ := netip.AddrFromSlice(route.Dst.IP)
		bits, _ := route.Dst.Mask.Size()
		to := netip.PrefixFrom(ip.Unmap(), bits)
		if bits == 0 && route.Priority > metric[f.family] {
			return true // ours comes first
		}
		return isOurs(route) || bits > 0 && !slices.ContainsFunc(r.Services, to.Overlaps)
	})
}

// metric is that of our route as the kernel has it.
var metric = map[int]int{unix.AF_INET: 0, unix.AF_INET6: 1024}

// clear removes what is in the way, and looks again: the kernel finds no route
// whose way is a nexthop object (ip nexthop) by what it tells of it.
func (r Routing) clear(f netFamily) error {
	routes, err := routesOf(r.Config.Table, f)
	list, errs := r.inTheWay(f, routes), []error{err}
	for i := range list {
		if err := netlink.RouteDel(&list[i]); err == nil {
			r.Removed.say(r.Config.Table, list[i])
		} else if !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("remove the route to %s from table %d, where it leads captured packets elsewhere: %w", list[i].Dst, r.Config.Table, err))
		}
	}
	if len(list) == 0 || errors.Join(errs...) != nil {
		return errors.Join(errs...)
	}
	routes, err = routesOf(r.Config.Table, f)
	errs = append(errs, err)
	left := r.inTheWay(f, routes)
	for i := range left {
		errs = append(errs, fmt.Errorf("the route to %s in table %d leads captured packets elsewhere and cannot be removed as it is: remove it, or the nexthop that it uses (ip route show table %d)", left[i].Dst, r.Config.Table, r.Config.Table))
	}
	return errors.Join(errs...)
}

// isOurs reports whether a route is "local default dev lo".
func isOurs(r netlink.Route) bool {
	bits := 0
	if r.Dst != nil {
		bits, _ = r.Dst.Mask.Size()
	}
	return r.Type == unix.RTN_LOCAL && r.LinkIndex == links.Lo && bits == 0
}

// routesOf lists the routes of a table, of which alone the kernel tells (before
// 4.20, of all): a node may have a million others.
func routesOf(table int, f netFamily) ([]netlink.Route, error) {
	conn, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("list routes of table %d: %w", table, err)
	}
	defer conn.Close()
	_ = conn.SetStrictCheck(true)
	list, err := dump.Again(func() ([]netlink.Route, error) {
		return conn.RouteListFiltered(f.family, &netlink.Route{Table: table}, netlink.RT_FILTER_TABLE)
	})
	if err != nil && !errors.Is(err, unix.ENOENT) { // there is no such table
		return nil, fmt.Errorf("list routes of table %d: %w", table, err)
	}
	return list, nil
}

// noFamily reports whether an error is that the kernel has no such family.
func noFamily(err error) bool {
	return errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP)
}

func localRoute(table, lo int, f netFamily) *netlink.Route {
	return &netlink.Route{
		LinkIndex: lo, Dst: f.any, Table: table, Protocol: routeProtocol,
		Type: unix.RTN_LOCAL, Scope: unix.RT_SCOPE_HOST,
	}
}

func markRule(cfg plan.Config, f netFamily) *netlink.Rule {
	r := netlink.NewRule()
	mask := cfg.Mask
	r.Family, r.Mark, r.Mask, r.Table, r.Priority, r.Protocol = f.family, cfg.Mark, &mask, cfg.Table, rulePriority, routeProtocol
	return r
}
