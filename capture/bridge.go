package capture

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/capture/links"
	"github.com/gridmesh/gridmesh/capture/nft"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/capture/routing"
	"github.com/gridmesh/gridmesh/capture/rules"
)

// RefreshBridges follows the network of the node: the bridges that pods hang on,
// and IPv6 where it comes or goes. It reports whether anything changed, also
// where a Repair since the last call saw it first.
func (c *Capture) RefreshBridges() (bool, error) {
	changed, err := c.refresh()
	changed, err = changed || c.moved, errors.Join(err, c.unsaid)
	c.moved, c.unsaid = false, nil
	return changed, err
}

func (c *Capture) refresh() (changed bool, err error) {
	all, err := c.look(links.Read)
	errs := []error{err}
	if has := routing.HasIPv6(c.host.ProcSys); c.installed && has != c.ipv6 {
		changed = true
		errs = append(errs, c.installRoutes())
	}
	if err != nil {
		return changed, errors.Join(errs...)
	}
	list, err := podBridges(c.cfg, all)
	if err == nil && !slices.EqualFunc(list, c.bridges, equalBridge) {
		changed = true
		err = c.follow(list)
	}
	return changed, errors.Join(append(errs, err)...)
}

// follow makes the rules be about these bridges, and the bridges fit for them.
func (c *Capture) follow(list []rules.PodBridge) error {
	set := c.table.setBridges(list)
	if set != nil {
		c.outdated = true // for the next Repair
	}
	return errors.Join(c.adopt(list), set)
}

// allLinksEvery is how often all links are read.
const allLinksEvery = time.Minute

// look reads the bridges of the node, and now and then all links, for whether any of
// them validates sources by their marks. Where these come and go all the time the
// bridges, which do not, are followed all the same.
func (c *Capture) look(read func(kind string) ([]links.Link, error)) ([]links.Link, error) {
	if time.Since(c.looked) < allLinksEvery {
		return read("bridge")
	}
	all, err := read("")
	torn := errors.Is(err, dump.ErrTorn)
	if err != nil && !torn {
		return nil, err
	}
	c.looked = time.Now()
	one := slices.ContainsFunc(all, func(l links.Link) bool { return l.Validates && l.Name != "lo" })
	c.validates = one || torn && c.validates // others may be missing
	if torn {
		return read("bridge")
	}
	return all, nil
}

// podBridges finds the bridges with an address inside a pod CIDR.
func podBridges(cfg plan.Config, all []links.Link) ([]rules.PodBridge, error) {
	var found []rules.PodBridge
	for _, l := range all {
		if l.Kind != "bridge" {
			continue
		}
		addrs, err := links.Addresses(l.Index)
		if err != nil {
			return nil, fmt.Errorf("bridge %s: %w", l.Name, err)
		}
		var pods []netip.Prefix
		for _, ip := range addrs {
			for _, p := range cfg.PodCIDRs {
				if p.Contains(ip) && !slices.Contains(pods, p) {
					pods = append(pods, p)
				}
			}
		}
		if len(pods) > 0 {
			b := rules.PodBridge{Name: l.Name, Pods: pods, All: cfg.Kernel != nil}
			copy(b.MAC[:], l.MAC)
			found = append(found, b)
		}
	}
	return found, nil
}

// bridgeTable holds the rules of the bridges.
var bridgeTable = &nftables.Table{Name: rules.Name, Family: nftables.TableFamilyBridge}

// installBridge puts the rules of the bridges in place, and returns how the
// kernel tells them.
func installBridge(conn *nft.Session, list []rules.PodBridge) (string, error) {
	t := bridgeTable
	found, err := conn.Table(t.Family)
	if err == nil {
		err = owned(found, "bridge "+rules.Name)
	}
	if err != nil {
		return "", err
	}
	addTable(conn, t, found, false)
	chains := rules.Bridge(list).Chains
	for i := range chains {
		conn.AddChain(nft.NewChain(t, &chains[i]))
	}
	addRules(conn, t, chains)
	if err := conn.Flush(); err != nil {
		return "", fmt.Errorf("install bridge rules: %w", err)
	}
	return remember(conn, t.Family, chains)
}

func removeBridge(conn *nft.Session) error {
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyBridge)
	if err != nil {
		return fmt.Errorf("list bridge tables: %w", err)
	}
	for _, t := range tables {
		if t.Name == rules.Name {
			conn.DelTable(t)
		}
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("remove bridge table: %w", err)
	}
	return nil
}

// adopt makes the bridges fit for the capture. Sysctls that cannot be set are
// tried again by Repair; the rest is done without them, and RefreshBridges says
// so: a disk that does not remember one keeps no node from its guard.
func (c *Capture) adopt(list []rules.PodBridge) error {
	if len(list) == 0 {
		c.bridges, c.lifting = nil, ""
		return removeBridge(c.table.conn)
	}
	text, err := installBridge(c.table.conn, list)
	if err != nil {
		return err
	}
	c.lifting = text
	if err := pinMAC(list); err != nil { // last: each time, it wakes who watches links
		return err
	}
	c.bridges = list
	_, err = c.bridgeSysctls(list)
	c.sayLater(err)
	return nil
}

// sayLater keeps an error for RefreshBridges, beside what is still to be said.
func (c *Capture) sayLater(err error) {
	if err != nil && (c.unsaid == nil || !strings.Contains(c.unsaid.Error(), err.Error())) {
		c.unsaid = errors.Join(c.unsaid, err)
	}
}

// SysctlDir has, in Host.StateDir, the values of sysctls as they were.
const SysctlDir = "sysctl"

// EarlyDemux is the sysctl that Tune sets.
const EarlyDemux = "net.ipv4.tcp_early_demux"

var bridgeNetfilter = []string{"net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables"}

// Sysctls names those that the capture may set to 0, whatever the node's bridges
// are called.
func Sysctls() []string { return append([]string{EarlyDemux}, bridgeNetfilter...) }

// sendRedirects is the key of a bridge. A dot in its name is "/", as in sysctl(8).
func sendRedirects(bridge string) string {
	return ofLink + strings.ReplaceAll(bridge, ".", "/") + redirects
}

const ofLink, redirects = "net.ipv4.conf.", ".send_redirects"

// setsSysctl reports whether a key is one of Sysctls, or of a link that may be a bridge.
func setsSysctl(key string) bool {
	link, isLinks := strings.CutPrefix(key, ofLink)
	link, isRedirects := strings.CutSuffix(link, redirects)
	return slices.Contains(Sysctls(), key) || isLinks && isRedirects && link != "" && link != "all" && link != "default" && !strings.Contains(link, ".")
}

// Tune sets what serves better with it and works without. A kept source is an
// address of a pod, from a port that the pod may use itself towards the same
// endpoint; early demux would give the pod's answers to Envoy's old socket,
// and the kernel drops in forward what has one. What it cannot do for the table of
// connections is a finding.
func (c *Capture) Tune() error {
	c.raiseTracking()
	if len(c.cfg.PodCIDRs) == 0 {
		return nil
	}
	_, err := c.ctl.Zero(EarlyDemux) // of IPv6 too
	return err
}

// bridgeSysctls sets what the bridges need and reports whether anything had to
// be changed.
func (c *Capture) bridgeSysctls(list []rules.PodBridge) (changed bool, err error) {
	if len(list) == 0 {
		return false, nil
	}
	var errs []error
	zero := func(key string) error {
		set, err := c.ctl.Zero(key)
		changed = changed || set
		return err
	}
	for _, key := range bridgeNetfilter {
		if c.cfg.KeepBridgeNetfilter {
			errs = append(errs, c.ctl.Undo(key))
			continue
		}
		// At 1 the bridge's hook drops the socket that tproxy assigned.
		if err := zero(key); err != nil {
			errs = append(errs, fmt.Errorf("%w; where it must stay as it is, start with --bridge-netfilter keep", err))
		}
	}
	for _, b := range list {
		// What is lifted leaves by the interface it came from; the kernel
		// would tell each sender of a shorter way that is none.
		errs = append(errs, zero(sendRedirects(b.Name)))
	}
	return changed, errors.Join(errs...)
}

// pinMAC gives each bridge the MAC it has, for good. Left alone, a bridge takes
// the lowest MAC of its ports as they come and go, and the rules, which may
// have to hold without an agent, would lift frames to an address of the past.
func pinMAC(list []rules.PodBridge) error {
	for _, b := range list {
		l, err := netlink.LinkByName(b.Name)
		if err == nil {
			err = netlink.LinkSetHardwareAddr(l, b.MAC[:])
		}
		if err != nil {
			return fmt.Errorf("keep the MAC of %s: %w", b.Name, err)
		}
	}
	return nil
}

func equalBridge(a, b rules.PodBridge) bool {
	return a.Name == b.Name && a.MAC == b.MAC && slices.Equal(a.Pods, b.Pods)
}

// Pods names the kind of pod network found: "bridged (cni0)" or "routed", and
// an IP version that the node does not have.
func (c *Capture) Pods() string {
	if c.installed && !c.ipv6 {
		return c.podNetwork() + ", without IPv6 (it is disabled on lo)"
	}
	return c.podNetwork()
}

func (c *Capture) podNetwork() string {
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
