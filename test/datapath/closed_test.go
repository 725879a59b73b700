package datapath

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/leaks"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// megabyte is what goes up and down every path.
const megabyte = 1 << 20

// services counts those with addresses of their own: the first ten are Kubernetes'.
var services = 10

// lastService is the last one: 10.96.7.0 and what follows is what tests choose themselves.
const lastService = 7<<8 - 1

// ownIPs are a new Service's addresses, which no other test has.
func ownIPs(t *testing.T) []netip.Addr {
	t.Helper()
	if services++; services > lastService {
		t.Fatalf("tests have made %d Services, and there are no more addresses for them", services)
	}
	return []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(services >> 8), byte(services)}), netip.MustParseAddr(fmt.Sprintf("fd00:96::%x", services))}
}

// fleet is a Service with one pod on every node.
type fleet struct {
	service
	pods map[string]*netlab.Pod
	apps map[string]*edge.App
}

// deploy runs a pod per node and makes a Service of them.
func deploy(t *testing.T, name, keys string) *fleet {
	t.Helper()
	f := &fleet{pods: map[string]*netlab.Pod{}, apps: map[string]*edge.App{}}
	f.service = service{name: name, keys: keys, ips: ownIPs(t)}
	for _, n := range w.lab.Nodes() {
		pod, err := n.AddPod(name + "-" + n.Name)
		must(t, err)
		app, err := edge.StartApp(pod.NS, name+"-"+n.Name, 8080)
		must(t, err)
		f.pods[n.Name], f.apps[n.Name] = pod, app
		f.ends = append(f.ends, backend{pod.IP, n.Name}, backend{pod.IP6, n.Name})
		t.Cleanup(func() { app.Stop(); must(t, pod.Remove()) })
	}
	w.state.service(f.service)
	must(t, w.state.write())
	t.Cleanup(func() { w.state.remove(name); must(t, w.state.write()) })
	return f
}

// client is where a connection starts.
type client struct {
	name string
	ns   *netlab.NS
	node *netlab.Node
	ip   [2]netip.Addr
	pod  bool
}

func (f *fleet) clients() []client {
	var list []client
	for _, n := range w.lab.Nodes() {
		p := f.pods[n.Name]
		list = append(list,
			client{"host " + n.Name, n.NS, n, [2]netip.Addr{n.IP, n.IP6}, false},
			client{"pod on " + n.Name, p.NS, n, [2]netip.Addr{p.IP, p.IP6}, true})
	}
	return list
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const (
	// answers is when a request that must be answered has failed: a slow
	// machine is no failure.
	answers = 20 * time.Second
	// firstPacket is less than the second after which a packet that was
	// dropped is sent again: what takes less was refused at its first packet.
	firstPacket = 900 * time.Millisecond
)

// served waits until every client is answered.
func (f *fleet) served(t *testing.T) {
	t.Helper()
	for _, c := range f.clients() {
		for i := range f.ips {
			wait.Eventually(t, func() error {
				_, err := edge.Ask(c.ns, "tcp", f.at(i), time.Second)
				return wrap(c.name, err)
			})
		}
	}
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

func TestClosedServiceStaysInItsUnit(t *testing.T) {
	leaks.None(t, w.lab, leaks.Any)
	f := deploy(t, "closed", `["unit"]`)
	f.served(t)
	for _, c := range f.clients() {
		for i, ip := range f.ips {
			t.Run(fmt.Sprintf("%s to %s", c.name, ip), func(t *testing.T) {
				answered(t, c.ns, f.at(i), "udp")
				seen := map[string]int{}
				for range 16 {
					for _, network := range []string{"tcp", "udp"} {
						a, err := edge.Ask(c.ns, network, f.at(i), answers)
						if err != nil {
							t.Fatalf("%s: %v", network, err)
						}
						seen[a.Name]++
						if !strings.HasPrefix(a.Name, "closed-"+c.node.Unit.Name+"-") {
							t.Fatalf("%s answered by %s, outside unit %s", network, a.Name, c.node.Unit.Name)
						}
						checkSource(t, f, c, network, i, a)
					}
				}
				if len(seen) != len(c.node.Unit.Nodes) {
					t.Errorf("answered by %v, want every pod of the unit", seen)
				}
				must(t, edge.Transfer(c.ns, f.at(i), megabyte, time.Minute))
			})
		}
	}
}

// checkSource: a pod's own address is kept for TCP, except when it meets
// itself; everything else shows the node's.
func checkSource(t *testing.T, f *fleet, c client, network string, i int, a edge.Answer) {
	t.Helper()
	self := a.Name == f.name+"-"+c.node.Name && c.pod
	got, err := netip.ParseAddr(a.Client)
	must(t, err)
	if keep := c.pod && network == "tcp" && !self; keep != (got == c.ip[i]) && c.pod {
		t.Errorf("%s: the pod saw %s, client is %s (itself: %v)", network, got, c.ip[i], self)
	}
}

func TestRefusals(t *testing.T) {
	leaks.None(t, w.lab, leaks.Any)
	f := deploy(t, "refuse", `["unit"]`)
	f.served(t)
	empty := service{name: "empty", keys: `["unit"]`, ips: ownIPs(t)}
	w.state.service(empty)
	must(t, w.state.write())
	t.Cleanup(func() { w.state.remove("empty"); must(t, w.state.write()) })

	for _, c := range f.clients() {
		for i := range f.ips {
			for what, to := range map[string]netip.AddrPort{
				"a Service without endpoints": empty.at(i),
				"a port that is not served":   netip.AddrPortFrom(f.ips[i], 81),
				"an address nobody has":       netip.AddrPortFrom(map[int]netip.Addr{0: netip.MustParseAddr("10.96.77.77"), 1: netip.MustParseAddr("fd00:96::7777")}[i], 80),
			} {
				for _, network := range []string{"tcp", "udp"} {
					start := time.Now()
					_, err := edge.Ask(c.ns, network, to, 2*time.Second)
					took := time.Since(start)
					// A UDP socket of the host itself learns of it as EPERM, as
					// under kube-proxy: its packet is refused in OUTPUT.
					local := network == "udp" && !c.pod && errors.Is(err, syscall.EPERM)
					if !errors.Is(err, syscall.ECONNREFUSED) && !local {
						t.Errorf("%s to %s (%s %s): %v, want connection refused", c.name, what, network, to, err)
					} else if took > firstPacket {
						t.Errorf("%s to %s (%s): refused only after %s", c.name, what, network, took)
					}
				}
			}
		}
	}
}
