// Package nodelocal is the CoreDNS plugin "nodelocal": it puts the addresses
// that a node's DNS listens on onto the loopback interface, has the server
// listen on them, and keeps them there. They stay when the process ends, so that
// a restart is no outage of more than itself; Cleanup takes them away.
//
// nodelocal.go reads the Corefile, addresses.go follows the addresses, others.go
// looks for other servers at them, cleanup.go takes them away.
package nodelocal

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"syscall"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
)

const pluginName = "nodelocal"

func init() { plugin.Register(pluginName, setup) } // CoreDNS's way

// marker is the label of our addresses, by which Cleanup knows IPv4 ones.
const marker = "lo:gridmesh"

func setup(c *caddy.Controller) error {
	list, err := parse(c)
	if err != nil {
		return plugin.Error(pluginName, err)
	}
	cfg := dnsserver.GetConfig(c)
	port, err := strconv.ParseUint(cfg.Port, 10, 16)
	if err != nil {
		return plugin.Error(pluginName, err)
	}
	n := &node{addrs: list, port: uint16(port), reload: func() error { return syscall.Kill(os.Getpid(), syscall.SIGUSR1) }}
	if err := n.start(); err != nil {
		return plugin.Error(pluginName, err)
	}
	cfg.ListenHosts = nil
	for _, ip := range n.listening {
		cfg.ListenHosts = append(cfg.ListenHosts, ip.String())
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	c.OnStartup(func() error {
		served.Store(true)
		wg.Go(func() { n.run(ctx) })
		return nil
	})
	c.OnShutdown(func() error {
		cancel()
		wg.Wait()
		return nil
	})
	return nil
}

// parse reads "nodelocal ADDRESS...".
func parse(c *caddy.Controller) ([]netip.Addr, error) {
	var list []netip.Addr
	for c.Next() {
		args := c.RemainingArgs()
		if len(args) == 0 {
			return nil, c.Err("give the addresses to listen on, as nodelocal 169.254.20.11 fd00:6772:6964::53")
		}
		for _, arg := range args {
			ip, err := netip.ParseAddr(arg)
			if err != nil || ip.Is4In6() || ip.Zone() != "" {
				return nil, c.Errf("%q is no IP address", arg)
			}
			if !usable(ip) {
				return nil, c.Errf("%s: %v: pods reach no other kind on their node alone", ip, ErrAddress)
			}
			list = append(list, ip)
		}
		if c.NextBlock() {
			return nil, c.Errf("unknown option %q; nodelocal has none", c.Val())
		}
	}
	return list, nil
}

// ErrAddress is of an address that nodelocal neither puts on lo nor takes away.
var ErrAddress = errors.New("give a link-local address of IPv4 (169.254.0.0/16), or a unique local one of IPv6 (fd00::/8)")

// usable: an address that no other machine has, and that pods can route to.
func usable(ip netip.Addr) bool {
	if ip.Is4() {
		return ip.IsLinkLocalUnicast()
	}
	return ip.IsPrivate() && !ip.Is4In6()
}
