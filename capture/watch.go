package capture

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
)

// Watch fills the returned one-slot channel whenever a link or an address of
// the node changed: a pod network's bridge comes with the first pod, and takes
// the MAC of its lowest port unless somebody gave it one.
func Watch(ctx context.Context) (<-chan struct{}, error) {
	links, addrs := make(chan netlink.LinkUpdate, 64), make(chan netlink.AddrUpdate, 64)
	ignore := func(error) {} // a lost message is made good by the periodic Repair
	if err := netlink.LinkSubscribeWithOptions(links, ctx.Done(), netlink.LinkSubscribeOptions{ErrorCallback: ignore}); err != nil {
		return nil, fmt.Errorf("watch links: %w", err)
	}
	if err := netlink.AddrSubscribeWithOptions(addrs, ctx.Done(), netlink.AddrSubscribeOptions{ErrorCallback: ignore}); err != nil {
		return nil, fmt.Errorf("watch addresses: %w", err)
	}
	wake := make(chan struct{}, 1)
	go func() {
		for links != nil || addrs != nil {
			select {
			case _, ok := <-links:
				if !ok {
					links = nil
					continue
				}
			case _, ok := <-addrs:
				if !ok {
					addrs = nil
					continue
				}
			}
			select {
			case wake <- struct{}{}:
			default:
			}
		}
	}()
	return wake, nil
}

// RefreshBridges follows the bridges that pods hang on and tells whether
// anything changed.
func (c *Capture) RefreshBridges() (bool, error) {
	list, err := podBridges(c.cfg)
	if err != nil || slices.EqualFunc(list, c.bridges, equalBridge) {
		return false, err
	}
	if err := c.adopt(list); err != nil {
		return false, err
	}
	return true, c.table.setBridges(list)
}

// adopt makes the bridges fit for the capture.
func (c *Capture) adopt(list []Bridge) (err error) {
	if len(list) == 0 {
		err = removeBridge()
	} else if err = pinMAC(list); err == nil {
		if err = installBridge(list); err == nil {
			_, err = c.bridgeSysctls(list)
		}
	}
	if err == nil {
		c.bridges = list
	}
	return err
}

// bridgeSysctls sets what the bridges need and tells whether anything had to
// be changed.
func (c *Capture) bridgeSysctls(list []Bridge) (changed bool, err error) {
	if len(list) == 0 {
		return false, nil
	}
	for _, key := range []string{"net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables"} {
		if c.cfg.KeepBridgeNetfilter {
			if err := c.ctl.undo(key); err != nil {
				return changed, err
			}
			continue
		}
		// At 1 the bridge's hook drops the socket that tproxy assigned.
		set, err := c.ctl.set(key, "0")
		if err != nil {
			return changed, fmt.Errorf("%w; where it must stay as it is, start with --bridge-netfilter keep", err)
		}
		changed = changed || set
	}
	for _, b := range list {
		// What is lifted leaves by the interface it came from; the kernel
		// would tell each sender of a shorter way that is none.
		set, err := c.ctl.set("net.ipv4.conf."+strings.ReplaceAll(b.Name, ".", "/")+".send_redirects", "0")
		if err != nil {
			return changed, err
		}
		changed = changed || set
	}
	return changed, nil
}

// pinMAC gives each bridge the MAC it has, for good. Left alone, a bridge takes
// the lowest MAC of its ports as they come and go, and the rules, which may
// have to hold without an agent, would lift frames to an address of the past.
func pinMAC(bridges []Bridge) error {
	for _, b := range bridges {
		l, err := netlink.LinkByName(b.Name)
		if err == nil {
			err = netlink.LinkSetHardwareAddr(l, b.MAC)
		}
		if err != nil {
			return fmt.Errorf("keep the MAC of %s: %w", b.Name, err)
		}
	}
	return nil
}

func equalBridge(a, b Bridge) bool {
	return a.Name == b.Name && bytes.Equal(a.MAC, b.MAC) && slices.Equal(a.Pods, b.Pods)
}
