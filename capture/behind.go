package capture

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/capture/links"
	"github.com/gridmesh/gridmesh/capture/plan"
)

// behind knows which addresses of clients are one pod's, which may give itself as many
// as it likes: those behind one link that is a pod's own. One address stands for all of
// them. It has one owner.
type behind struct {
	pods  *atomic.Pointer[[]netip.Prefix] // the ranges of this node's pods
	links func() (map[netip.Addr]int, error)

	of     map[netip.Addr]netip.Addr // what stands for each address that holds connections, where its link is known
	stands map[int]netip.Addr        // by link
}

func newBehind(pods *atomic.Pointer[[]netip.Prefix]) *behind {
	return &behind{pods: pods, links: podLinks, of: map[netip.Addr]netip.Addr{}, stands: map[int]netip.Addr{}}
}

// client is who counts for an address: its pod, where that is known.
func (b *behind) client(ip netip.Addr) netip.Addr {
	if stands, known := b.of[ip]; known {
		return stands
	}
	return ip
}

// follow learns the links of addresses that came since it was last called, and forgets
// those that are gone. What was known stays so while connections are held, for the
// kernel forgets neighbours that are silent.
func (b *behind) follow(open []socket) error {
	held := map[netip.Addr]bool{}
	var fresh []netip.Addr
	for _, s := range open {
		ip := s.peer.Addr()
		if _, known := b.of[ip]; !known && !held[ip] && b.mayBePods(ip) {
			fresh = append(fresh, ip)
		}
		held[ip] = true
	}
	b.forget(held)
	if len(fresh) == 0 {
		return nil
	}
	at, err := b.links()
	if err != nil {
		return fmt.Errorf("see which addresses are one pod's: %w", err)
	}
	slices.SortFunc(fresh, netip.Addr.Compare)
	for _, ip := range fresh {
		link, known := at[ip]
		if !known {
			continue
		}
		if _, had := b.stands[link]; !had {
			b.stands[link] = ip
		}
		b.of[ip] = b.stands[link]
	}
	return nil
}

func (b *behind) forget(held map[netip.Addr]bool) {
	stand := map[netip.Addr]bool{}
	for ip, of := range b.of {
		if held[ip] {
			stand[of] = true
		} else {
			delete(b.of, ip)
		}
	}
	for link, of := range b.stands {
		if !stand[of] {
			delete(b.stands, link)
		}
	}
}

// mayBePods reports whether an address may be of a pod of this node. Others may be many
// behind one link.
func (b *behind) mayBePods(ip netip.Addr) bool {
	pods := b.pods.Load()
	return ip.IsLinkLocalUnicast() || pods != nil && plan.Within(*pods, ip)
}

// podLinks are the links behind which this node's neighbours are, of those kinds that a
// pod has for itself: of one on a bridge that is the bridge's port.
func podLinks() (map[netip.Addr]int, error) {
	own := map[int]bool{}
	for _, kind := range []string{"veth", "tun"} {
		list, err := links.Read(kind)
		if err != nil && !errors.Is(err, dump.ErrTorn) {
			return nil, err
		}
		for _, l := range list {
			own[l.Index] = true
		}
	}
	type place struct {
		bridge int
		mac    string
	}
	ports := map[place]int{}
	frames, err := neighbours(unix.AF_BRIDGE)
	for _, n := range frames {
		ports[place{n.MasterIndex, string(n.HardwareAddr)}] = n.LinkIndex
	}
	at := map[netip.Addr]int{}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		list, unread := neighbours(family)
		err = errors.Join(err, unread)
		for _, n := range list {
			link := n.LinkIndex
			if port, bridged := ports[place{link, string(n.HardwareAddr)}]; bridged {
				link = port
			}
			if ip, ok := netip.AddrFromSlice(n.IP); ok && own[link] {
				at[ip.Unmap()] = link
			}
		}
	}
	return at, err
}

// neighbours are those that the kernel knows; of a list that stays torn, those that were
// told.
func neighbours(family int) ([]netlink.Neigh, error) {
	list, err := dump.Again(func() ([]netlink.Neigh, error) { return netlink.NeighList(0, family) })
	if err != nil && !errors.Is(err, dump.ErrTorn) {
		return nil, fmt.Errorf("list neighbours: %w", err)
	}
	return list, nil
}
