package capture

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
)

// IPs are the addresses by which a node is known, those that it has now or may have again.
type IPs struct {
	Said  []netip.Addr // by its Node, as InternalIPs, the newest first
	Homes []netip.Addr // by which its default routes left where it had none of those, the first one first
}

// Equal reports whether both are the same, in the same order.
func (i IPs) Equal(other IPs) bool {
	return slices.Equal(i.Said, other.Said) && slices.Equal(i.Homes, other.Homes)
}

// homes are those of IPs, by whether they are of IPv6.
type homes map[bool][]netip.Addr

// knownBy is IPs as the kernel path has them.
type knownBy struct {
	said   []netip.Addr
	homes  homes
	astray astray
}

// mostHomes and mostSaid bound those of a family, for some networks give another each day.
const mostHomes, mostSaid = 8, 4

func (h homes) add(ip netip.Addr) {
	list := h[ip.Is6()]
	if slices.Contains(list, ip) {
		return
	}
	list = append(list, ip)
	h[ip.Is6()] = list[max(0, len(list)-mostHomes):]
}

// firstOf are the first of each family, each once; what no node is dialled at is left out.
func firstOf(n int, lists ...[]netip.Addr) (first []netip.Addr) {
	count := map[bool]int{}
	for _, ip := range slices.Concat(lists...) {
		ip = ip.Unmap().WithZone("")
		if !ip.IsGlobalUnicast() || slices.Contains(first, ip) || count[ip.Is6()] == n {
			continue
		}
		count[ip.Is6()]++
		first = append(first, ip)
	}
	return first
}

// IPs are the addresses by which the node is known; none where the kernel path is off.
func (c *Capture) IPs() (known IPs) {
	if k := c.kernel; k != nil {
		known.Said = slices.Clone(k.said)
		known.Homes = slices.Concat(k.homes[false], k.homes[true])
	}
	return known
}

// RememberIPs takes what a run before knew, which is older than what is known: before Install,
// or later, and then the next Repair follows.
func (c *Capture) RememberIPs(before IPs) {
	k := c.kernel
	if k == nil {
		return
	}
	k.said = firstOf(mostSaid, k.said, before.Said)
	list := firstOf(mostHomes, before.Homes, k.homes[false], k.homes[true])
	k.homes = homes{}
	for _, ip := range list {
		k.homes.add(ip)
	}
}

// SayIPs takes the InternalIPs that the Node has now; the next Repair follows. What it said
// before counts on: a kubelet that was given no address says another with each uplink.
func (c *Capture) SayIPs(now []netip.Addr) {
	if k := c.kernel; k != nil {
		k.said = firstOf(mostSaid, now, k.said)
	}
}

// youngFor is for how long after a boot uplinks may come in any order: what is chosen of them
// until then is no home.
const youngFor = 3 * time.Minute

// isYoung reports whether the machine has just booted.
func isYoung() bool {
	var up unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up)
	return err == nil && time.Duration(up.Nano()) < youngFor
}

// How often it is asked whether the default route leaves where node ports are served, and for how
// long it may not.
const (
	astrayEvery = time.Minute
	astrayFor   = 10 * time.Minute
)

// astray is what is known of a node whose default route leaves by another address than that at
// which it serves node ports.
type astray struct {
	looked time.Time
	what   string
	since  time.Time
}

// judgeHomes makes a finding of that, where nobody but the routes said by what the node is known.
func (c *Capture) judgeHomes(all []netip.Addr, now time.Time) {
	k := c.kernel
	if len(c.cfg.Kernel.NodePortAddresses)+len(c.cfg.Kernel.NodeIPs) > 0 || now.Sub(k.astray.looked) < astrayEvery {
		return
	}
	k.astray.looked = now
	what, err := c.node.astray(k, all)
	if err != nil {
		return // followAddresses says so, or the next look is whole
	}
	if what != k.astray.what {
		k.astray.what, k.astray.since = what, now
	}
	text := ""
	if what != "" && now.Sub(k.astray.since) >= astrayFor {
		text = "node ports are served at the address by which the default route left first, and it leaves by another, where they are not: " + what +
			"; the Node says nothing of either (InternalIP): see that the agent reaches the API server, or give --nodeport-addresses the range in which they are to be served"
	}
	c.own.set(NodePortHome, text)
}

// astray says by which address the best default route leaves that is not served; "" for none.
func (of nodeNetwork) astray(k *kernelPath, all []netip.Addr) (string, error) {
	var list []string
	for _, ipv6 := range []bool{false, true} {
		family := func(ip netip.Addr) bool { return ip.Is6() == ipv6 }
		served := slices.DeleteFunc(slices.Clone(k.ports), func(ip netip.Addr) bool { return !family(ip) })
		if len(served) == 0 || slices.ContainsFunc(k.said, func(ip netip.Addr) bool { return slices.Contains(served, ip) }) {
			continue
		}
		switch ip, err := of.primary(ipv6); {
		case err != nil && !errors.Is(err, dump.ErrTorn):
			return "", err
		case err == nil && ip.IsValid() && slices.Contains(all, ip) && !slices.Contains(served, ip):
			list = append(list, fmt.Sprintf("at %s, and not at %s", served[0], ip))
		}
	}
	return strings.Join(list, ", "), nil
}
