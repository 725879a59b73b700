package datapath

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// udpService writes a Service of UDP ports alone, with an endpoint on a node.
func udpService(t *testing.T, name, keys string, ip netip.Addr, end backend, ports ...int) {
	t.Helper()
	w.state.files["service-"+name] = portsManifest(name, keys, "UDP", ip, end, ports...)
	must(t, w.state.write())
	t.Cleanup(func() { w.state.remove(name); must(t, w.state.write()) })
}

// portsManifest is a Service of one address and many ports, with one endpoint for all.
func portsManifest(name, keys, protocol string, ip netip.Addr, end backend, ports ...int) string {
	var list, slice strings.Builder
	for _, port := range ports {
		fmt.Fprintf(&list, "{name: p%d, port: %d, protocol: %s}, ", port, port, protocol)
		fmt.Fprintf(&slice, "{name: p%d, port: 8080, protocol: %s}, ", port, protocol)
	}
	return fmt.Sprintf(`---
apiVersion: v1
kind: Service
metadata: {name: %[1]s%[2]s}
spec: {clusterIP: %[3]s, clusterIPs: [%[3]s], ports: [%[4]s]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s-4, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [%[5]s]
endpoints: [{addresses: [%[6]s], nodeName: %[7]s, conditions: {ready: true}}]
`, name, keys, ip, list.String(), slice.String(), end.ip, end.node)
}

const closedKeys = `, annotations: {topologyKeys: '["unit"]'}`

// says waits until a node's status names a problem.
func says(t *testing.T, e *edge.Node, words ...string) {
	t.Helper()
	wait.Eventually(t, func() error {
		out, err := e.Run("status")
		for _, word := range words {
			if err == nil && !strings.Contains(string(out), word) {
				err = fmt.Errorf("status does not say %q:\n%s", word, out)
			}
		}
		return err
	})
}

// A tunnel of the node comes up, and its daemons bind their ports, whatever
// ports the cluster's Services have; who is not served for that is told so. With both paths
// all of them are served, by the kernel, which needs no socket.
func TestUDPServicesLeaveTheNodeItsPorts(t *testing.T) {
	f := deploy(t, "udpports", `["unit"]`)
	f.served(t)
	end := backend{f.pods["a-1"].IP, "a-1"}
	ip := func(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 96, 7, n}) }
	udpService(t, "tunnel", closedKeys, ip(1), end, 8472, 51820, 68)
	udpService(t, "plain", "", ip(2), end, 9999)
	ours := []netip.AddrPort{netip.AddrPortFrom(ip(1), 8472), netip.AddrPortFrom(ip(1), 51820), netip.AddrPortFrom(ip(1), 68), netip.AddrPortFrom(ip(2), 9999)}
	t.Run("envoy", func(t *testing.T) {
		e := named(t, "a-1")
		says(t, e, "10.96.7.1:51820/udp is refused: the port is the node's own", "and 2 more of its UDP ports", "Services ask for what no node serves")
		nodeBinds(t, e)()
		for _, to := range ours {
			if _, err := edge.Ask(f.pods[e.Name].NS, "udp", to, 5*time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("%s: %v, want connection refused", to, err)
			}
		}
		if a, err := edge.Ask(f.pods[e.Name].NS, "udp", f.at(0), answers); err != nil {
			t.Errorf("a Service that is served: %v %v", a, err)
		}
	})
	t.Run("auto", func(t *testing.T) {
		e := named(t, "a-2")
		twoPaths(t, e)
		defer nodeBinds(t, e)() // what is a Service's is not the daemon's that has the port
		for who, from := range map[string]*netlab.NS{"a pod": f.pods[e.Name].NS, "the host": e.NS} {
			for _, to := range append(ours, f.at(0)) {
				wait.Eventually(t, func() error {
					_, err := edge.Ask(from, "udp", to, time.Second)
					return wrap(fmt.Sprintf("%s at %s", who, to), err)
				})
			}
		}
		if out, err := e.Run("status"); err != nil || strings.Contains(string(out), "is refused") {
			t.Errorf("status: %v\n%s", err, out)
		}
	})
}

// nodeBinds brings up a tunnel on a node, and has daemons bind their ports there, on every
// address, until it is told to end.
func nodeBinds(t *testing.T, e *edge.Node) (end func()) {
	t.Helper()
	var ends []func()
	must(t, e.NS.Do(func() error {
		tunnel := &netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "vx0"}, VxlanId: 7, Port: 8472, Learning: true}
		if err := netlink.LinkAdd(tunnel); err != nil {
			return err
		}
		ends = append(ends, func() { must(t, e.NS.Do(func() error { return netlink.LinkDel(tunnel) })) })
		return netlink.LinkSetUp(tunnel) // binds the port on every address
	}))
	for _, port := range []int{51820, 68, 9999} {
		must(t, e.NS.Do(func() error {
			l, err := net.ListenPacket("udp4", fmt.Sprintf("0.0.0.0:%d", port))
			if err == nil {
				ends = append(ends, func() { must(t, l.Close()) })
			}
			return err
		}))
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// A Service with thousands of UDP ports costs a node what sixteen cost, and
// no Service with keys its place in Envoy. With both paths the kernel serves each, and
// Envoy hears of none.
func TestUDPServiceWithThousandsOfPorts(t *testing.T) {
	f := deploy(t, "udpmany", `["unit"]`)
	f.served(t)
	ports := make([]int, 3000)
	for i := range ports {
		ports[i] = 20000 + i
	}
	ip := netip.MustParseAddr("10.96.7.3")
	for _, leg := range []struct {
		datapath, node string
		least, most    int // UDP listeners of Envoy
		more           int // MiB of it
	}{
		{"envoy", "a-1", 16, 36, 100},
		{"auto", "a-2", 0, 0, 30},
	} {
		t.Run(leg.datapath, func(t *testing.T) {
			e := named(t, leg.node)
			if leg.datapath == "auto" {
				twoPaths(t, e)
			}
			before, err := e.Envoy.ResidentMiB()
			must(t, err)
			udpService(t, "many", closedKeys, ip, backend{f.pods[e.Name].IP, e.Name}, ports...)
			if leg.datapath == "auto" {
				manyServed(t, f.pods[e.Name].NS, ip, ports)
			} else {
				says(t, e, "UDP ports are refused, for a Service has 16 UDP listeners of a family at most: of service default/many")
			}
			listeners := func() (n int) {
				text, err := e.Admin("/listeners")
				must(t, err)
				return strings.Count(text, "udp-")
			}
			wait.Eventually(t, func() error {
				if n := listeners(); n < leg.least {
					return fmt.Errorf("%d UDP listeners", n)
				}
				return nil
			})
			after, err := e.Envoy.ResidentMiB()
			must(t, err)
			t.Logf("Envoy: %d MiB before, %d MiB after; %d UDP listeners", before, after, listeners())
			if n := listeners(); n > leg.most || after > before+leg.more {
				t.Errorf("%d UDP listeners cost %d MiB", n, after-before)
			}
			if !held(t, e)[f.at(0).String()] || !held(t, e)[f.at(1).String()] {
				t.Error("the clusters of a Service with keys were pushed out of Envoy")
			}
			for _, network := range []string{"tcp", "udp"} {
				if _, err := edge.Ask(f.pods[e.Name].NS, network, f.at(0), answers); err != nil {
					t.Errorf("%s: %v", network, err)
				}
			}
		})
	}
}

// manyServed wants an answer at every UDP port of a Service.
func manyServed(t *testing.T, from *netlab.NS, ip netip.Addr, ports []int) {
	t.Helper()
	for _, port := range ports {
		to := netip.AddrPortFrom(ip, uint16(port))
		wait.Eventually(t, func() error {
			_, err := edge.Ask(from, "udp", to, time.Second)
			return wrap(to.String(), err)
		})
	}
}
