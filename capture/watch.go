package capture

import (
	"bytes"
	"context"
	"fmt"
	"slices"

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
	bridges, err := podBridges(c.cfg)
	if err != nil {
		return false, err
	}
	if slices.EqualFunc(bridges, c.bridges, equalBridge) {
		return false, nil
	}
	if len(bridges) == 0 {
		err = removeBridge()
	} else if err = pinMAC(bridges); err == nil {
		err = installBridge(bridges, c.ctl)
	}
	if err != nil {
		return false, err
	}
	c.bridges = bridges
	return true, nil
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
