package datapath

import (
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

// Units have the same ranges: a pod in b has the addresses of one in a. Each unit
// is answered by its own, whatever stands first in a slice, or in which slice; the
// one of a unit that is not ready is not taken for the other's.
func TestSameAddressInTwoUnits(t *testing.T) {
	t.Run("envoy", func(t *testing.T) { sameAddressInTwoUnits(t, "same") })
	t.Run("auto", func(t *testing.T) { // where the kernel has the UDP of it
		for _, e := range w.nodes {
			twoPaths(t, e)
		}
		sameAddressInTwoUnits(t, "both")
	})
}

func sameAddressInTwoUnits(t *testing.T, name string) {
	t.Helper()
	leaks.None(t, w.lab, leaks.Any)
	f := deploy(t, name, `["unit"]`)
	twin, err := w.lab.Node("b-1").AddPod(name + "-twin")
	must(t, err)
	t.Cleanup(func() { must(t, twin.Remove()) })
	app, err := edge.StartApp(twin.NS, name+"-twin", 8080)
	must(t, err)
	t.Cleanup(app.Stop)
	sameAddresses(t, twin, f.pods["a-2"])
	f.pods["twin"] = &netlab.Pod{IP: f.pods["a-2"].IP, IP6: f.pods["a-2"].IP6}
	ofA := func(says string) entry { return on("a-2", says) }
	ofB := func(says string) entry { return entry{"twin", "nodeName: b-1, " + says} }
	var nodes []string
	for _, n := range w.lab.Nodes() {
		nodes = append(nodes, n.Name)
	}
	i := 0
	for _, tc := range []struct {
		what, keys string
		a, b       entry
		want       map[string]string // by unit
	}{
		{"both ready", `["unit"]`, ofA(isReady), ofB(isReady), map[string]string{"a": "a-2", "b": "twin"}},
		{"any will do", `["unit","*"]`, ofA(isReady), ofB(isReady), map[string]string{"a": "a-2", "b": "twin"}},
		{"that of a is not ready", `["unit"]`, ofA(notReady), ofB(isReady), map[string]string{"a": refused, "b": "twin"}},
		{"that of b ends", `["unit"]`, ofA(isReady), ofB(ended), map[string]string{"a": "a-2", "b": refused}},
	} {
		for order, slices := range map[string][][]entry{
			"a first":            {{tc.a, tc.b}},
			"b first":            {{tc.b, tc.a}},
			"a's slice is first": {{tc.a}, {tc.b}},
			"b's slice is first": {{tc.b}, {tc.a}},
		} {
			t.Run(tc.what+", "+order, func(t *testing.T) {
				i++
				s := service{name: fmt.Sprintf("%s-%d", name, i), keys: tc.keys}
				var text string
				for n, list := range slices {
					text += sliceOf(f, s.name, fmt.Sprintf("%s-%d", s.name, n), false, list...) + sliceOf(f, s.name, fmt.Sprintf("%s-6-%d", s.name, n), true, list...)
				}
				s = publish(t, f, s, "", text, nodes...)
				for _, n := range w.lab.Nodes() {
					for ip := range s.ips {
						for _, network := range []string{"tcp", "udp"} {
							if err := answeredBy(f, n.Name, network, s.at(ip), tc.want[n.Unit.Name]); err != nil {
								t.Errorf("%s from a pod on %s to %s: %v", network, n.Name, s.at(ip), err)
							}
						}
					}
				}
			})
		}
	}
}

// sameAddresses gives a pod the addresses of one of another unit, too, and the
// nodes of its own unit the way to it.
func sameAddresses(t *testing.T, p, other *netlab.Pod) {
	t.Helper()
	for _, to := range []struct{ ip, own, node netip.Addr }{{other.IP, p.IP, p.Node.IP}, {other.IP6, p.IP6, p.Node.IP6}} {
		dst := &net.IPNet{IP: to.ip.AsSlice(), Mask: net.CIDRMask(to.ip.BitLen(), to.ip.BitLen())}
		must(t, p.NS.Do(func() error {
			link, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			return netlink.AddrAdd(link, &netlink.Addr{IPNet: dst, Flags: unix.IFA_F_NODAD})
		}))
		for _, n := range p.Node.Unit.Nodes {
			route := &netlink.Route{Dst: dst, Gw: to.node.AsSlice()}
			must(t, n.NS.Do(func() error {
				if n == p.Node { // as to its own address
					way, err := netlink.RouteGet(to.own.AsSlice())
					if err != nil {
						return err
					}
					route.Gw, route.LinkIndex, route.Scope = nil, way[0].LinkIndex, netlink.SCOPE_LINK
				}
				return netlink.RouteAdd(route)
			}))
			if n != p.Node { // the pod's own goes with its link
				t.Cleanup(func() { must(t, n.NS.Do(func() error { return netlink.RouteDel(route) })) })
			}
		}
	}
}
