package nodelocal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	clog "github.com/coredns/coredns/plugin/pkg/log"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

var log = clog.NewWithPlugin(pluginName)

const (
	lookEvery = 5 * time.Second
	// reloadEvery bounds how often a server is asked to listen on an address more.
	reloadEvery = time.Minute
)

// served: this process has answered at the addresses before, so that what is
// found there may be itself.
var served atomic.Bool

// suspects are who answers where gridmesh-dns does.
const suspects = "SuperEdge's edge-coredns, NodeLocal DNSCache, another gridmesh-dns"

// node is the addresses of one server block. start, then run, use it.
type node struct {
	addrs     []netip.Addr // as the Corefile has them
	port      uint16
	listening []netip.Addr // those that could be put on lo at the start
	reload    func() error // has the server listen anew
	asked     time.Time    // when it was asked to
	failure   string       // that was logged last
	sharing   string       // that was logged last of others at the addresses
}

// start puts the addresses on lo. Those of a family that this machine has not
// are passed over; the server cannot listen on them.
func (n *node) start() error {
	var err error
	if n.listening, err = put(n.addrs); err != nil {
		return err
	}
	if len(n.listening) == 0 {
		return fmt.Errorf("IPv6 is disabled on lo, and there is no address of IPv4; give one (169.254.20.11), or enable IPv6 (net.ipv6.conf.lo.disable_ipv6=0)")
	}
	if missing := len(n.addrs) - len(n.listening); missing > 0 {
		log.Infof("IPv6 is disabled on lo: addresses of it are left out until it is there")
	}
	if served.Load() {
		return nil
	}
	return alone(n.addresses())
}

// run keeps the addresses on lo until ctx ends, has the server listen anew when
// one can be had that could not before, and looks for others at them.
func (n *node) run(ctx context.Context) {
	defer n.forget()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			n.look(now)
		}
	}
}

func (n *node) look(now time.Time) {
	there, err := put(n.addrs)
	if err == nil && len(there) > len(n.listening) && now.Sub(n.asked) >= reloadEvery {
		n.asked = now
		log.Infof("IPv6 is there now: the server listens anew, on %v", there)
		err = n.reload()
	}
	once(&n.failure, err, "; it is tried again")
	once(&n.sharing, n.shared(), "")
}

// once logs an error that is another than the last one.
func once(last *string, err error, more string) {
	text := ""
	if err != nil {
		text = err.Error() + more
	}
	if text != "" && text != *last {
		log.Error(text)
	}
	*last = text
}

// put puts addresses on lo, and returns those that are there.
func put(list []netip.Addr) (there []netip.Addr, err error) {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return nil, fmt.Errorf("find lo: %w", err)
	}
	for _, ip := range list {
		if ip.Is6() && !hasIPv6() {
			continue
		}
		if err := putOne(lo, ip); err != nil {
			return nil, fmt.Errorf("put %s on lo: %w%s", ip, err, hint(err))
		}
		there = append(there, ip)
	}
	return there, nil
}

func hint(err error) string {
	if errors.Is(err, syscall.EPERM) {
		return "; gridmesh-dns needs the capability NET_ADMIN"
	}
	return ""
}

func putOne(lo netlink.Link, ip netip.Addr) error {
	addr := &netlink.Addr{IPNet: netlink.NewIPNet(ip.AsSlice())}
	if ip.Is6() {
		addr.Flags = unix.IFA_F_NODAD // it is usable at once
	} else {
		// Of scope host: of any wider one the kernel takes it for the source of what
		// leaves by an interface without an address, as those of pods often are.
		addr.Label, addr.Scope = marker, unix.RT_SCOPE_HOST
		if err := dropWider(lo, ip); err != nil {
			return err
		}
	}
	if err := netlink.AddrAdd(lo, addr); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// dropWider takes away an address of ours that is of another scope.
func dropWider(lo netlink.Link, ip netip.Addr) error {
	list, err := netlink.AddrList(lo, netlink.FAMILY_V4)
	if err != nil {
		return err
	}
	for i := range list {
		a := &list[i]
		if found, _ := netip.AddrFromSlice(a.IP.To4()); found == ip && a.Label == marker && a.Scope != unix.RT_SCOPE_HOST {
			return netlink.AddrDel(lo, a)
		}
	}
	return nil
}

// hasIPv6 reports whether lo can have an address of IPv6. What cannot be read,
// for another reason than that there is nothing, is no reason to do without.
func hasIPv6() bool {
	data, err := os.ReadFile("/proc/sys/net/ipv6/conf/lo/disable_ipv6")
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	return strings.TrimSpace(string(data)) != "1"
}

// alone makes sure that nobody else answers at the addresses. CoreDNS permits
// other processes to share its port, and each would get some of the questions.
func alone(list []netip.AddrPort) error {
	for _, at := range list {
		address := at.String()
		conn, err := net.ListenPacket("udp", address)
		if err == nil {
			err = conn.Close()
		}
		if err == nil {
			var l net.Listener
			if l, err = net.Listen("tcp", address); err == nil {
				err = l.Close()
			}
		}
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("another process of this node answers at %s already, and would get some of the questions: stop it first (%s)", address, suspects)
		}
	}
	return nil // what else is wrong the server finds, when it listens
}
