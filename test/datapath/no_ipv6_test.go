package datapath

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// A node without IPv6 serves IPv4, and its Envoy is given no listener that it would
// refuse, also after a restart of both; IPv6 is picked up where it comes.
func TestNodeWithoutIPv6(t *testing.T) {
	l := newLone(t)
	before := l.serve(t, "before") // pods have IPv6, whatever their node has
	l.ipv6(t, false)
	l.start(t)
	l.answers(t, before, 0)
	l.listens(t, false)
	l.saysOnce(t)

	l.ipv6(t, true)
	after := l.serve(t, "after") // the others' links lost their addresses
	l.answers(t, after, 0, 1)
	l.listens(t, true)
	l.saysOnce(t)

	l.ipv6(t, false)
	l.Agent.Kill()
	l.Envoy.Kill()
	l.start(t)
	l.answers(t, before, 0)
	l.listens(t, false)
	l.saysOnce(t)
}

// saysOnce: the log of an agent that began without IPv6 says so in one line, and
// blames no right that it has.
func (l lone) saysOnce(t *testing.T) {
	t.Helper()
	log := l.Agent.Log()
	if n := strings.Count(log, "without IPv6 (it is disabled on lo)"); n != 1 || strings.Contains(log, "NET_ADMIN") {
		t.Errorf("the log says %d times that there is no IPv6, want once, and nothing of NET_ADMIN:\n%s", n, log)
	}
}

// lone is a node of its own, behind no router, in a unit of its own.
type lone struct{ *edge.Node }

// newLone makes the node; nothing runs on it.
func newLone(t *testing.T) lone {
	t.Helper()
	const name = "lone"
	ns, err := netlab.NewNS(name)
	must(t, err)
	t.Cleanup(func() { must(t, ns.Close()) })
	must(t, ns.Sysctl(map[string]string{"net/ipv4/ip_forward": "1", "net/ipv6/conf/all/forwarding": "1"}))
	w.state.node(name, map[string]string{"unit": name})
	t.Cleanup(func() { delete(w.state.files, "node-"+name); must(t, w.state.write()) })
	e, err := edge.NewNode(&netlab.Node{
		Name: name, NS: ns, Network: netlab.Routed,
		PodCIDR: netip.MustParsePrefix("10.244.99.0/24"), PodCIDR6: netip.MustParsePrefix("fd00:244:99::/64"),
	}, "--manifests", w.state.dir, "--service-cidr", netlab.ServiceCIDR4.String()+","+netlab.ServiceCIDR6.String(), "--datapath", "envoy")
	must(t, err)
	return lone{e}
}

func (l lone) start(t *testing.T) {
	t.Helper()
	must(t, l.StartAgent())
	t.Cleanup(l.Agent.Kill)
	must(t, l.StartEnvoy())
	t.Cleanup(l.Envoy.Kill)
	connected(t, l.Node)
}

// ipv6 switches it on or off on every interface, also of those to come.
func (l lone) ipv6(t *testing.T, on bool) {
	t.Helper()
	off := map[bool]string{true: "0", false: "1"}[on]
	for _, link := range []string{"all", "default", "lo"} {
		must(t, l.NS.Sysctl(map[string]string{"net/ipv6/conf/" + link + "/disable_ipv6": off}))
	}
}

// loneFleet is a Service of one pod, and a client.
type loneFleet struct {
	service
	client *netlab.Pod
}

func (l lone) serve(t *testing.T, name string) loneFleet {
	t.Helper()
	add := func(name string) *netlab.Pod {
		pod, err := l.AddPod(name)
		must(t, err)
		t.Cleanup(func() { must(t, pod.Remove()) })
		return pod
	}
	pod := add(name + "-server")
	app, err := edge.StartApp(pod.NS, name, 8080)
	must(t, err)
	t.Cleanup(app.Stop)
	s := service{name: name, keys: `["unit"]`, ends: []backend{{pod.IP, l.Name}, {pod.IP6, l.Name}}, ips: ownIPs(t)}
	w.state.service(s)
	must(t, w.state.write())
	t.Cleanup(func() { w.state.remove(name); must(t, w.state.write()) })
	return loneFleet{s, add(name + "-client")}
}

// answers waits until the Service is served at some of its addresses.
func (l lone) answers(t *testing.T, f loneFleet, addresses ...int) {
	t.Helper()
	for _, i := range addresses {
		for _, network := range []string{"tcp", "udp"} {
			wait.Eventually(t, func() error {
				a, err := edge.Ask(f.client.NS, network, f.at(i), time.Second)
				if err == nil && a.Name != f.name {
					err = fmt.Errorf("answered by %s", a.Name)
				}
				return wrap(network+" to "+f.at(i).String(), err)
			})
		}
	}
}

// listens looks at Envoy for a while: it has listeners of IPv6 or none, and has
// refused nothing.
func (l lone) listens(t *testing.T, ipv6 bool) {
	t.Helper()
	wait.Holds(t, time.Second, func() error {
		text, err := l.Admin("/listeners")
		if err != nil {
			return err
		}
		if contains(text, "tcp4-plain") != true || contains(text, "tcp6-plain") != ipv6 || contains(text, "[fd00:96::") != ipv6 {
			return fmt.Errorf("with IPv6 %v Envoy listens at\n%s", ipv6, text)
		}
		metrics, err := l.Metrics()
		if err != nil {
			return err
		}
		for line := range strings.Lines(metrics) {
			if strings.HasPrefix(line, "gridmesh_xds_nacks_total") && !strings.HasSuffix(line, " 0\n") {
				return fmt.Errorf("Envoy refused something: %s%s", line, l.Agent.Log())
			}
		}
		return nil
	})
}
