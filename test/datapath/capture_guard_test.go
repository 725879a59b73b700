package datapath

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// first is a rule of routing before gridmesh's: the main table, for all that is
// addressed to Services.
func first(services netip.Prefix) *netlink.Rule {
	r := netlink.NewRule()
	r.Priority, r.Table, r.Family = 0, unix.RT_TABLE_MAIN, unix.AF_INET
	if services.Addr().Is6() {
		r.Family = unix.AF_INET6
	}
	r.Dst = &net.IPNet{IP: services.Addr().AsSlice(), Mask: net.CIDRMask(services.Bits(), services.Addr().BitLen())}
	return r
}

// rulesOfAgent removes gridmesh's rules of routing, as systemd-networkd does
// with what it does not know.
func rulesOfAgent(ns *netlab.NS) error {
	return ns.Do(func() error {
		for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
			list, err := netlink.RuleList(family)
			if err != nil {
				return err
			}
			for _, r := range list {
				if r.Table != 15001 {
					continue
				}
				r.Family = family
				if err := netlink.RuleDel(&r); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// What only bears the mark of the capture, and is not led to this node, does
// not leave it either: it is refused at its first packet. What the kernel path
// serves needs no mark, and is answered.
func TestNothingLeavesBesideTheRoute(t *testing.T) {
	f := deploy(t, "astray", `["unit"]`)
	f.served(t)
	for _, name := range []string{"a-1", "a-2", "b-3"} {
		t.Run(name+" envoy", func(t *testing.T) { nothingLeaves(t, f, name, func(client, string) bool { return true }) })
		// Where the kernel has the UDP of it, and what pods send that Envoy does not get goes on to the kernel.
		t.Run(name+" auto", func(t *testing.T) {
			twoPaths(t, named(t, name))
			nothingLeaves(t, f, name, func(c client, network string) bool { return !c.pod && network == "tcp" })
		})
	}
}

// astray is what has marked packets come by another way than ours, and its end.
func astray(e *edge.Node) map[string]struct{ harm, cure func() error } {
	return map[string]struct{ harm, cure func() error }{
		"others come first": {
			func() error {
				return e.NS.Do(func() error {
					return errors.Join(netlink.RuleAdd(first(netlab.ServiceCIDR4)), netlink.RuleAdd(first(netlab.ServiceCIDR6)))
				})
			},
			func() error {
				return e.NS.Do(func() error {
					return errors.Join(netlink.RuleDel(first(netlab.ServiceCIDR4)), netlink.RuleDel(first(netlab.ServiceCIDR6)))
				})
			},
		},
		"ours are removed, and the agent hangs": {
			func() error {
				e.Agent.Signal(syscall.SIGSTOP)
				return rulesOfAgent(e.NS)
			},
			func() error {
				e.Agent.Signal(syscall.SIGCONT)
				return nil
			},
		},
	}
}

// nothingLeaves: what has nothing but its mark is refused, and the rest is answered.
func nothingLeaves(t *testing.T, f *fleet, name string, marked func(c client, network string) bool) {
	t.Helper()
	e := named(t, name)
	for what, other := range astray(e) {
		t.Run(what, func(t *testing.T) {
			leaks.None(t, w.lab, leaks.Any)
			t.Cleanup(func() { e.Agent.Signal(syscall.SIGCONT) }) // whatever fails before its cure
			must(t, other.harm())
			for _, c := range f.clients() {
				if c.node != e.Node || name == "b-3" && c.pod {
					continue // its pods are redirected, and need no mark
				}
				for i := range f.ips {
					for _, network := range []string{"tcp", "udp"} {
						start := time.Now()
						_, err := edge.Ask(c.ns, network, f.at(i), answers)
						if !marked(c, network) {
							if err != nil {
								t.Errorf("%s, %s to %s: %v", c.name, network, f.at(i), err)
							}
							continue
						}
						refused := errors.Is(err, syscall.ECONNREFUSED) || network == "udp" && !c.pod && errors.Is(err, syscall.EPERM)
						if took := time.Since(start); !refused || took > firstPacket {
							t.Errorf("%s, %s to %s: %v after %s", c.name, network, f.at(i), err, took)
						}
					}
				}
			}
			must(t, other.cure())
			for _, c := range f.clients() {
				if c.node != e.Node {
					continue
				}
				for i := range f.ips {
					wait.Eventually(t, func() error {
						_, err := edge.Ask(c.ns, "tcp", f.at(i), time.Second)
						return wrap(fmt.Sprint(c.name, " afterwards"), err)
					})
				}
			}
		})
	}
}
