package netlab

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// PodNetwork is the kind of a node's pod network.
type PodNetwork string

// The kinds. In both, pods have real addresses and no NAT.
const (
	Routed  PodNetwork = "routed"  // a veth and a host route a pod
	Bridged PodNetwork = "bridged" // cni0, as flannel and the bridge plugin make it
)

// siteMTU is that of links between units: a tunnel's.
const siteMTU = 1300

// Ranges of every lab.
var (
	ServiceCIDR4 = netip.MustParsePrefix("10.96.0.0/16")
	ServiceCIDR6 = netip.MustParsePrefix("fd00:96::/112")
	CloudIP      = netip.MustParseAddr("10.200.0.1")
	CloudIP6     = netip.MustParseAddr("fd00:200::1")
	anywhere4    = netip.MustParsePrefix("0.0.0.0/0")
	anywhere6    = netip.MustParsePrefix("::/0")
)

// Config describes a lab.
type Config struct {
	Units []UnitConfig
	// Links between units, by name; without one, units reach each other
	// through their uplinks.
	Links [][2]string
}

// UnitConfig describes a unit: its nodes' pod networks, in order.
type UnitConfig struct {
	Name  string
	Nodes []PodNetwork
}

// Lab is a built network.
type Lab struct {
	Cloud *NS
	wan   *NS
	Units []*Unit
	links []string // "a b", in the order of units
	cuts  cuts
}

// Unit is a site: a router with an uplink, and nodes behind it.
type Unit struct {
	Name   string
	Router *NS
	Nodes  []*Node
	index  int
	wan4   netip.Addr
	wan6   netip.Addr
	net4   netip.Prefix
	net6   netip.Prefix
	links  []string
	hosts  []*Host
	lab    *Lab
}

// Node is a machine of a unit.
type Node struct {
	Name     string
	NS       *NS
	Unit     *Unit
	IP, IP6  netip.Addr
	PodCIDR  netip.Prefix
	PodCIDR6 netip.Prefix
	Network  PodNetwork
	nextPod  int
	freePods []int
}

// Build makes the network.
func Build(cfg Config) (*Lab, error) {
	l := &Lab{}
	var err error
	if l.wan, err = NewNS("wan"); err != nil {
		return nil, err
	}
	if err := l.wan.bridge("wan0"); err != nil {
		return nil, err
	}
	if l.Cloud, err = NewNS("cloud"); err != nil {
		return nil, err
	}
	if err := l.plug(l.Cloud, netip.PrefixFrom(CloudIP, 16), netip.PrefixFrom(CloudIP6, 64)); err != nil {
		return nil, err
	}
	index := 0
	for i, u := range cfg.Units {
		unit, err := l.addUnit(u, i+1, &index)
		if err != nil {
			return nil, err
		}
		l.Units = append(l.Units, unit)
	}
	for _, pair := range cfg.Links {
		if err := l.link(pair[0], pair[1]); err != nil {
			return nil, err
		}
	}
	return l, l.route()
}

// plug connects a namespace to the WAN.
func (l *Lab) plug(n *NS, addrs ...netip.Prefix) error {
	port := "w-" + n.Name
	if err := wire(end{n, "up0", addrs}, end{l.wan, port, nil}, 0); err != nil {
		return err
	}
	return l.wan.enslave(port, "wan0")
}

func (l *Lab) addUnit(cfg UnitConfig, i int, index *int) (*Unit, error) {
	u := &Unit{
		Name: cfg.Name, index: i, lab: l,
		wan4: netip.AddrFrom4([4]byte{10, 200, 1, byte(i)}), wan6: v6(0x200, 0, 0x100+i),
		net4: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 20, byte(i), 0}), 24), net6: netip.PrefixFrom(v6(0x20, i, 0), 64),
	}
	var err error
	if u.Router, err = NewNS("unit-" + u.Name); err != nil {
		return nil, err
	}
	if err := u.Router.Sysctl(routerSysctls); err != nil {
		return nil, err
	}
	if err := l.plug(u.Router, netip.PrefixFrom(u.wan4, 16), netip.PrefixFrom(u.wan6, 64)); err != nil {
		return nil, err
	}
	if err := u.Router.bridge("lan0", netip.PrefixFrom(u.gateway4(), 24), netip.PrefixFrom(u.gateway6(), 64)); err != nil {
		return nil, err
	}
	for j, network := range cfg.Nodes {
		*index++
		n, err := u.addNode(j, *index, network)
		if err != nil {
			return nil, err
		}
		u.Nodes = append(u.Nodes, n)
	}
	return u, nil
}

var routerSysctls = map[string]string{
	"net/ipv4/ip_forward": "1", "net/ipv6/conf/all/forwarding": "1",
	"net/bridge/bridge-nf-call-iptables": "0", "net/bridge/bridge-nf-call-ip6tables": "0",
}

func (u *Unit) gateway4() netip.Addr { return u.net4.Addr().Next() }
func (u *Unit) gateway6() netip.Addr { return u.net6.Addr().Next() }

func (u *Unit) addNode(j, index int, network PodNetwork) (*Node, error) {
	n := &Node{
		Name: fmt.Sprintf("%s-%d", u.Name, j+1), Unit: u, Network: network,
		IP: netip.AddrFrom4([4]byte{10, 20, byte(u.index), byte(10 + j)}), IP6: v6(0x20, u.index, 0x10+j),
		PodCIDR:  netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(index), 0}), 24),
		PodCIDR6: netip.PrefixFrom(v6(0x244, index, 0), 64),
	}
	var err error
	if n.NS, err = NewNS(n.Name); err != nil {
		return nil, err
	}
	if err := n.NS.Sysctl(map[string]string{
		"net/ipv4/ip_forward": "1", "net/ipv6/conf/all/forwarding": "1",
		"net/ipv4/conf/all/rp_filter": "1", "net/ipv4/conf/default/rp_filter": "1",
	}); err != nil {
		return nil, err
	}
	port := "p-" + n.Name
	if err := wire(end{n.NS, "eth0", []netip.Prefix{netip.PrefixFrom(n.IP, 24), netip.PrefixFrom(n.IP6, 64)}}, end{u.Router, port, nil}, 0); err != nil {
		return nil, err
	}
	if err := u.Router.enslave(port, "lan0"); err != nil {
		return nil, err
	}
	if err := errors.Join(n.NS.route(anywhere4, u.gateway4(), "eth0"), n.NS.route(anywhere6, u.gateway6(), "eth0")); err != nil {
		return nil, err
	}
	if network == Bridged {
		err = n.NS.bridge("cni0", netip.PrefixFrom(n.PodCIDR.Addr().Next(), 24), netip.PrefixFrom(n.PodCIDR6.Addr().Next(), 64))
	}
	return n, err
}

// link connects two units directly, with a small MTU.
func (l *Lab) link(a, b string) error {
	x, y := l.Unit(a), l.Unit(b)
	if x == nil || y == nil {
		return fmt.Errorf("link %s-%s: no such unit", a, b)
	}
	if x.index > y.index {
		x, y, a, b = y, x, b, a
	}
	if err := wire(end{x.Router, "x-" + b, x.linkNet(y, 1)}, end{y.Router, "x-" + a, x.linkNet(y, 2)}, siteMTU); err != nil {
		return err
	}
	x.links, y.links = append(x.links, b), append(y.links, a)
	l.links = append(l.links, a+" "+b)
	return nil
}

// linkNet is an end's addresses of the link between u and a unit of a higher index.
func (u *Unit) linkNet(o *Unit, side int) []netip.Prefix {
	return []netip.Prefix{
		netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 201, byte(u.index*16 + o.index), byte(side)}), 24),
		netip.PrefixFrom(v6(0x201, u.index*16+o.index, side), 64),
	}
}

// route fills every routing table: all addresses are real everywhere.
func (l *Lab) route() error {
	for _, u := range l.Units {
		if err := errors.Join(
			u.Router.route(anywhere4, CloudIP, "up0"), u.Router.route(anywhere6, CloudIP6, "up0"),
			l.Cloud.route(u.net4, u.wan4, "up0"), l.Cloud.route(u.net6, u.wan6, "up0")); err != nil {
			return err
		}
		for _, n := range u.Nodes {
			if err := l.routePods(u, n); err != nil {
				return err
			}
		}
		for _, o := range l.Units {
			if o == u {
				continue
			}
			if err := u.routeTo(o); err != nil {
				return err
			}
		}
		if err := u.count(); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lab) routePods(u *Unit, n *Node) error {
	errs := []error{
		u.Router.route(n.PodCIDR, n.IP, "lan0"), u.Router.route(n.PodCIDR6, n.IP6, "lan0"),
		l.Cloud.route(n.PodCIDR, u.wan4, "up0"), l.Cloud.route(n.PodCIDR6, u.wan6, "up0"),
	}
	for _, peer := range u.Nodes {
		if peer != n {
			errs = append(errs, peer.NS.route(n.PodCIDR, n.IP, "eth0"), peer.NS.route(n.PodCIDR6, n.IP6, "eth0"))
		}
	}
	return errors.Join(errs...)
}

// routeTo leads to another unit: by a link where there is one.
func (u *Unit) routeTo(o *Unit) error {
	dev, via4, via6 := "up0", o.wan4, o.wan6
	if slices.Contains(u.links, o.Name) {
		far := o.linkNet(u, 1)
		if u.index < o.index {
			far = u.linkNet(o, 2)
		}
		dev, via4, via6 = "x-"+o.Name, far[0].Addr(), far[1].Addr()
	}
	errs := []error{u.Router.route(o.net4, via4, dev), u.Router.route(o.net6, via6, dev)}
	for _, n := range o.Nodes {
		errs = append(errs, u.Router.route(n.PodCIDR, via4, dev), u.Router.route(n.PodCIDR6, via6, dev))
	}
	return errors.Join(errs...)
}

// Unit returns a unit by name, or nil.
func (l *Lab) Unit(name string) *Unit {
	for _, u := range l.Units {
		if u.Name == name {
			return u
		}
	}
	return nil
}

// Node returns a node by name, or nil.
func (l *Lab) Node(name string) *Node {
	for _, n := range l.Nodes() {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// Nodes returns the nodes of all units.
func (l *Lab) Nodes() []*Node {
	var list []*Node
	for _, u := range l.Units {
		list = append(list, u.Nodes...)
	}
	return list
}

// v6 builds fd00:a:b::d.
func v6(a, b, d int) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfd, 0, byte(a >> 8), byte(a), byte(b >> 8), byte(b), 14: byte(d >> 8), 15: byte(d)})
}
