package netlab

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Pod is a network namespace on a node with addresses of its pod CIDRs.
type Pod struct {
	NS      *NS
	Node    *Node
	IP, IP6 netip.Addr
	index   int
}

// AddPod makes a pod's network as the node's kind of plugin would.
func (n *Node) AddPod(name string) (*Pod, error) { return n.addPod(name, n.takeIndex()) }

// Replace takes the pod off the network and gives its addresses to another at once.
func (p *Pod) Replace(name string) (*Pod, error) {
	if err := p.unplug(); err != nil {
		return nil, err
	}
	return p.Node.addPod(name, p.index)
}

func (n *Node) addPod(name string, index int) (*Pod, error) {
	p := &Pod{Node: n, index: index}
	p.IP = addrAt(n.PodCIDR, p.index)
	p.IP6 = addrAt(n.PodCIDR6, p.index)
	if err := unbindUnwired(name); err != nil {
		return nil, err
	}
	var err error
	if p.NS, err = NewNS(name); err != nil {
		return nil, err
	}
	// Routers would send them, and they must not change what a test sees.
	if err := p.NS.Sysctl(map[string]string{"net/ipv6/conf/default/accept_ra": "0"}); err != nil {
		return nil, err
	}
	if n.Network == Bridged {
		return p, n.bridgePod(p)
	}
	return p, n.routePod(p)
}

// Remove takes the pod off the network; its address may be used again.
func (p *Pod) Remove() error {
	p.Node.freePods = append(p.Node.freePods, p.index)
	return p.unplug()
}

func (p *Pod) unplug() error { return errors.Join(p.Node.NS.delLink(p.Port()), p.NS.Close()) }

func (n *Node) takeIndex() int {
	// Oldest first, so that an address rests before it comes back.
	if n.nextPod >= 240 && len(n.freePods) > 0 {
		i := n.freePods[0]
		n.freePods = n.freePods[1:]
		return i
	}
	n.nextPod++
	return n.nextPod + 1 // .1 is the gateway
}

// Port is the link of the pod on its node.
func (p *Pod) Port() string { return fmt.Sprintf("veth%d", p.index) }

func (n *Node) bridgePod(p *Pod) error {
	ends := []netip.Prefix{netip.PrefixFrom(p.IP, n.PodCIDR.Bits()), netip.PrefixFrom(p.IP6, n.PodCIDR6.Bits())}
	if err := wire(end{p.NS, "eth0", ends}, end{n.NS, p.Port(), nil}, 0); err != nil {
		return err
	}
	return errors.Join(n.NS.enslave(p.Port(), "cni0"),
		p.NS.route(anywhere4, n.PodCIDR.Addr().Next(), "eth0"), p.NS.route(anywhere6, n.PodCIDR6.Addr().Next(), "eth0"))
}

// Hairpin lets what a bridged pod sends come back to it, as most network plugins
// have it: what the bridge's own hook leads back does so.
func (p *Pod) Hairpin() error {
	l, err := p.Node.NS.link.LinkByName(p.Port())
	if err != nil || p.Node.Network != Bridged {
		return err
	}
	return p.Node.NS.link.LinkSetHairpin(l, true)
}

func (n *Node) routePod(p *Pod) error {
	gw4, gw6 := n.PodCIDR.Addr().Next(), n.PodCIDR6.Addr().Next()
	if err := wire(end{p.NS, "eth0", []netip.Prefix{host(p.IP), host(p.IP6)}}, end{n.NS, p.Port(), []netip.Prefix{host(gw4), host(gw6)}}, 0); err != nil {
		return err
	}
	none := netip.Addr{}
	return errors.Join(
		p.NS.route(host(gw4), none, "eth0"), p.NS.route(host(gw6), none, "eth0"),
		p.NS.route(anywhere4, gw4, "eth0"), p.NS.route(anywhere6, gw6, "eth0"),
		n.NS.route(host(p.IP), none, p.Port()), n.NS.route(host(p.IP6), none, p.Port()))
}

func addrAt(p netip.Prefix, i int) netip.Addr {
	b := p.Addr().AsSlice()
	b[len(b)-1] = byte(i)
	ip, _ := netip.AddrFromSlice(b)
	return ip
}

// RemoveStalePods removes the links and names of pods that another process of
// the node made and left. Names are one list for all nodes: the node's are
// those at the other end of its links.
func (n *Node) RemoveStalePods() error {
	links, err := n.NS.link.LinkList()
	if err != nil {
		return err
	}
	var stale []netlink.Link
	peers := map[int]bool{}
	for _, l := range links {
		if l.Type() == "veth" && strings.HasPrefix(l.Attrs().Name, "veth") {
			stale = append(stale, l)
			peers[l.Attrs().NetNsID] = true
		}
	}
	// Names first: who is killed here finds the rest by the links that are left.
	if err := n.unbindPods(peers); err != nil {
		return err
	}
	for _, l := range stale {
		if err := n.NS.link.LinkDel(l); err != nil && !errors.Is(err, unix.ENODEV) { // gone with the name
			return err
		}
	}
	return nil
}

// unbindPods removes the names of the namespaces that the node's kernel knows
// by these numbers.
func (n *Node) unbindPods(ids map[int]bool) error {
	paths, err := filepath.Glob(nsDir + podPrefix + "*")
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range paths {
		id, err := n.numberOf(path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // another node's, that is gone meanwhile
		case err != nil:
			errs = append(errs, err)
		case id >= 0 && ids[id]:
			errs = append(errs, unbind(path))
		}
	}
	return errors.Join(errs...)
}

// numberOf is what the node's kernel calls the namespace that is bound to a
// path; -1 where it has no link to it, or where nothing is bound.
func (n *Node) numberOf(path string) (int, error) {
	fd, err := netns.GetFromPath(path)
	if err != nil {
		return -1, err
	}
	defer func() { _ = fd.Close() }()
	if bound, err := isBound(path); err != nil || !bound {
		return -1, err
	}
	return n.NS.link.GetNetNsIdByFd(int(fd))
}

// unbindUnwired removes a name whose maker ended before it gave the namespace a
// link, by which RemoveStalePods would have found it.
func unbindUnwired(name string) error {
	path := nsDir + name
	if bound, err := isBound(path); err != nil || !bound {
		return err
	}
	ns, err := OpenNS(name)
	if err != nil {
		return err
	}
	links, err := ns.link.LinkList()
	ns.Leave()
	if err != nil || len(links) > 1 {
		return err // NewNS refuses the name of a pod that is there
	}
	return unbind(path)
}
