package capture

import (
	"context"
	"fmt"

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
