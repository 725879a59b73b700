package capture

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/capture/dump"
	"github.com/gridmesh/gridmesh/capture/links"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/internal/sockdiag"
)

// linksEvery is how long an address that another pod has taken may count for the one
// that had it, and how often the kernel is asked while nothing new comes.
const linksEvery = time.Second

// behind knows which addresses of clients are one pod's, which may give itself as many
// as it likes: those behind one link that is a pod's own. One address stands for all of
// them. It has one owner.
type behind struct {
	pods  *atomic.Pointer[[]netip.Prefix] // the ranges of this node's pods
	links func() (map[netip.Addr]int, error)

	link    map[netip.Addr]int // of addresses that hold connections, where it is known
	stands  map[int]netip.Addr // by link; one of those
	unknown map[netip.Addr]bool
	asked   time.Time // for the links
}

func newBehind(pods *atomic.Pointer[[]netip.Prefix]) *behind {
	return &behind{pods: pods, links: podLinks, link: map[netip.Addr]int{}}
}

// client is who counts for an address: its pod, where that is known.
func (b *behind) client(ip netip.Addr) netip.Addr {
	if link, known := b.link[ip]; known {
		return b.stands[link]
	}
	return ip
}

// follow learns the links of addresses that hold connections: at once of those that
// came since it was last called, and now and then of all, for an address may be
// another pod's by now. What was known stays where the kernel knows nothing: it
// forgets neighbours that are silent.
func (b *behind) follow(open []sockdiag.Socket, now time.Time) (err error) {
	held, fresh := map[netip.Addr]bool{}, false
	for _, s := range open {
		if ip := s.Peer.Addr(); !held[ip] && b.mayBePods(ip) {
			held[ip] = true
			_, known := b.link[ip]
			fresh = fresh || !known && !b.unknown[ip]
		}
	}
	maps.DeleteFunc(b.link, func(ip netip.Addr, _ int) bool { return !held[ip] })
	if fresh || len(held) > 0 && now.Sub(b.asked) >= linksEvery {
		err = b.learn(held, now)
	}
	b.choose()
	return err
}

// learn asks for the links. What it is told counts, also where some of it is not.
func (b *behind) learn(held map[netip.Addr]bool, now time.Time) error {
	at, err := b.links()
	b.asked, b.unknown = now, map[netip.Addr]bool{}
	for ip := range held {
		if link, told := at[ip]; told {
			b.link[ip] = link
		} else if _, known := b.link[ip]; !known {
			b.unknown[ip] = true
		}
	}
	if err != nil {
		return fmt.Errorf("see which addresses are one pod's: %w", err)
	}
	return nil
}

// choose says which address stands for each link: the one that did, as long as it is
// there, or the lowest.
func (b *behind) choose() {
	stands := map[int]netip.Addr{}
	for ip, link := range b.link {
		stand, has := stands[link]
		if stand == b.stands[link] && has {
			continue
		}
		if !has || ip == b.stands[link] || ip.Less(stand) {
			stands[link] = ip
		}
	}
	b.stands = stands
}

// mayBePods reports whether an address may be of a pod of this node. Others may be many
// behind one link.
func (b *behind) mayBePods(ip netip.Addr) bool {
	pods := b.pods.Load()
	return ip.IsLinkLocalUnicast() || pods != nil && plan.Within(*pods, ip)
}

// podLinks are the links behind which this node's neighbours are, of those kinds that a
// pod has for itself: of one on a bridge that is the bridge's port.
func podLinks() (map[netip.Addr]int, error) { return linksBy(links.Read, neighbours) }

// linksBy is podLinks, by who reads links of a kind and neighbours of a family.
func linksBy(read func(kind string) ([]links.Link, error), neighbours func(family int) ([]netlink.Neigh, error)) (map[netip.Addr]int, error) {
	own := map[int]bool{}
	var err error
	for _, kind := range []string{"veth", "tun"} {
		list, unread := read(kind)
		if !errors.Is(unread, dump.ErrTorn) {
			err = errors.Join(err, unread)
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
	frames, unread := neighbours(unix.AF_BRIDGE)
	err = errors.Join(err, unread)
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
