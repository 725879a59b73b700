package flows

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/sandbox"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// The engines, in the order of the table's columns.
const (
	kubeProxy = "kube-proxy"
	kernel    = "kernel"
	auto      = "auto"
	envoy     = "envoy"
)

var engineNames = []string{kubeProxy, kernel, auto, envoy}

// engine is what serves one node, with a network of its own around it: a second
// node of the same unit, one of another unit, and a machine that is no node. None
// of these has a proxy; what they dial is led to the first.
type engine struct {
	name    string
	unit    *netlab.Unit
	node    *cluster.Node
	pods    map[who]pair
	clients map[place]client
	own     []netip.Addr // the node's addresses

	kube      kubernetes.Interface // for kube-proxy
	manifests string               // a directory, for agents
}

type client struct {
	ns *netlab.NS
	ip pair
}

var pods = flag.String("pods", string(netlab.Bridged), "pod network of the nodes with an engine: bridged or routed")

var (
	engines []*engine
	all     = services()
)

func TestMain(m *testing.M) {
	flag.Parse()
	sandbox.Run(func() int {
		kube.LogTo(slog.New(slog.DiscardHandler)) // or it warns of each externalIP
		ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
		defer cancel()
		start := time.Now()
		if err := build(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "build the lab:", err)
			return 1
		}
		fmt.Printf("%d engines with %d Services serve after %s\n", len(engines), len(all), time.Since(start).Round(10*time.Millisecond))
		return m.Run()
	})
}

func build(ctx context.Context) error {
	var units []netlab.UnitConfig
	for _, name := range engineNames {
		units = append(units, netlab.UnitConfig{Name: name[:2], Nodes: []netlab.PodNetwork{netlab.PodNetwork(*pods), netlab.Routed, netlab.Routed}})
	}
	c, err := cluster.Up(ctx, cluster.Config{Bare: true, Lab: netlab.Config{Units: units}})
	if err != nil {
		return err
	}
	started := make(chan error)
	for i, name := range engineNames {
		if missing := edge.MissingForKubeProxy(); name == kubeProxy && missing != nil {
			fmt.Println(name, "is left out:", missing)
			continue
		}
		e := &engine{name: name, unit: c.Lab.Units[i], node: c.Nodes[c.Lab.Units[i].Nodes[0].Name]}
		engines = append(engines, e)
		if err := e.wire(); err != nil {
			return fmt.Errorf("network of %s: %w", name, err)
		}
		go func() { started <- wrap(name, e.start(ctx, c)) }()
	}
	var errs []error
	for range engines {
		errs = append(errs, <-started)
	}
	return errors.Join(errs...)
}

func wrap(what string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return err
}

func (e *engine) start(ctx context.Context, c *cluster.Cluster) error {
	e.kube, e.manifests = c.Kube, filepath.Join(sandbox.Dir, "manifests-"+e.name)
	if err := errors.Join(os.MkdirAll(e.manifests, 0o755), e.write(ctx, "table", all, false)); err != nil {
		return err
	}
	start := e.startGridmesh
	if e.name == kubeProxy {
		start = e.startKubeProxy
	}
	if err := start(ctx); err != nil {
		return err
	}
	return e.serving(ctx)
}

// Where ICMP errors have no limit, each refusal is told: many are dialled at once.
var tellAll = map[string]string{
	"net/ipv4/icmp_ratelimit": "0", "net/ipv6/icmp/ratelimit": "0", "net/ipv4/icmp_msgs_per_sec": "1000000", "net/ipv4/icmp_msgs_burst": "1000000",
	// Who is led here stays so, though there is a shorter way.
	"net/ipv4/conf/all/send_redirects": "0", "net/ipv4/conf/eth0/send_redirects": "0",
}

// wire makes pods, clients, and the ways between them.
func (e *engine) wire() error {
	nodes, pods := e.unit.Nodes, map[string]*netlab.Pod{}
	for _, p := range []struct {
		name string
		node *netlab.Node
	}{{"here", nodes[0]}, {"mate", nodes[1]}, {"far", nodes[2]}, {"pod", nodes[0]}, {"farpod", nodes[1]}} {
		made, err := p.node.AddPod(e.unit.Name + "-" + p.name)
		if err != nil {
			return err
		}
		if _, err := edge.StartApp(made.NS, p.name, appPort); err != nil {
			return err
		}
		if err := made.Hairpin(); err != nil {
			return err
		}
		pods[p.name] = made
	}
	out, err := e.unit.AddHost(e.unit.Name + "-out")
	if err != nil {
		return err
	}
	of := func(p *netlab.Pod) client { return client{p.NS, pair{p.IP, p.IP6}} }
	e.pods = map[who]pair{here: of(pods["here"]).ip, mate: of(pods["mate"]).ip, far: of(pods["far"]).ip}
	e.clients = map[place]client{
		pod: of(pods["pod"]), itself: of(pods["here"]), farPod: of(pods["farpod"]),
		host:      {nodes[0].NS, pair{nodes[0].IP, nodes[0].IP6}},
		otherNode: {nodes[1].NS, pair{nodes[1].IP, nodes[1].IP6}}, outside: {out.NS, pair{out.IP, out.IP6}},
	}
	e.own = []netip.Addr{
		nodes[0].IP, nodes[0].IP6, nodes[0].PodCIDR.Addr().Next(), nodes[0].PodCIDR6.Addr().Next(), alternative[0], alternative[1],
	}
	errs := []error{nodes[0].NS.Sysctl(tellAll), nodes[0].NS.AddLink("alt0")}
	for _, ipv6 := range []bool{false, true} {
		errs = append(errs, nodes[0].NS.AddAddress("alt0", elsewhere(ipv6)))
	}
	for _, ns := range []*netlab.NS{nodes[1].NS, out.NS} {
		for _, p := range led {
			errs = append(errs, ns.Via(p, e.clients[host].ip.of(p.Addr().Is6())))
		}
	}
	return errors.Join(append(errs, e.wireBeyond())...)
}

// wireBeyond has the router answer what the node leads on.
func (e *engine) wireBeyond() error {
	errs := []error{e.unit.Router.Sysctl(map[string]string{"net/ipv6/ip_nonlocal_bind": "1"})}
	for _, p := range outer {
		errs = append(errs, e.unit.Router.Own(p))
	}
	var ips []netip.Addr
	for _, s := range all {
		for _, p := range []pair{s.externalIPs(), s.vips(), s.proxyVIPs()} {
			ips = append(ips, p[:]...)
		}
	}
	return errors.Join(append(errs, serveBeyond(e.unit.Router, ips))...)
}

// objects are those of the engine's cluster, as they are written.
func (e *engine) objects(services []*service, moved bool) (nodes, list []runtime.Object) {
	units, names := []string{"ours", "ours", "other"}, map[who]string{}
	if moved {
		units[1] = "other"
	}
	for i, w := range []who{here, mate, far} {
		n := e.unit.Nodes[i]
		nodes, names[w] = append(nodes, nodeObject(n, units[i])), n.Name
	}
	for _, s := range services {
		if s.gone {
			continue
		}
		list = append(list, s.object(e.clients[outside].ip))
		for _, slice := range s.slices(e.pods, names) {
			list = append(list, slice)
		}
	}
	return nodes, list
}

// startGridmesh starts an agent on a directory of manifests, and its Envoy.
func (e *engine) startGridmesh(ctx context.Context) error {
	e.node.Flags = []string{"--manifests", e.manifests, "--service-cidr", netlab.ServiceCIDR4.String() + "," + netlab.ServiceCIDR6.String(), "--datapath", e.name}
	if err := e.node.StartAgent(); err != nil || e.name == kernel {
		return err
	}
	if err := e.node.StartEnvoy(); err != nil {
		return err
	}
	if err := e.node.WaitReady(ctx); err != nil || e.name != auto {
		return err
	}
	// Until the agent has seen Envoy for a while the kernel serves for it.
	return wait.Until(ctx, func() error {
		text, err := e.node.Metrics()
		if err == nil && !strings.Contains(text, "\ngridmesh_envoy_absent 0\n") {
			err = errors.New("the kernel serves for Envoy")
		}
		return err
	})
}

func (e *engine) startKubeProxy(context.Context) error {
	path, err := e.node.KubeProxyConfig()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	// Else it knows no pods, and translates no source.
	if err := os.WriteFile(path, append(text, "detectLocalMode: NodeCIDR\n"...), 0o600); err != nil {
		return err
	}
	e.node.KubeProxy, err = edge.Start(e.node.NS, "kube-proxy", edge.Binary("kube"), "kube-proxy", "--config", path)
	return err
}

// serving waits until what every engine serves is answered: each writes all of
// its first state at once.
func (e *engine) serving(ctx context.Context) error {
	return wait.Until(ctx, func() error {
		for _, f := range []flow{{service: all[0], to: clusterIP, from: host}, {service: all[len(all)-1], to: clusterIP, from: pod, ipv6: true}} {
			if f.keys != "" && e.name == kubeProxy {
				f.service = all[0]
			}
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			_, _, err := ask(ctx, from{e.clients[f.from].ns}, f.network(), e.address(f))
			if cancel(); err != nil {
				return fmt.Errorf("%s: %w; %s", f, err, e.logs())
			}
		}
		return nil
	})
}

// logs are what the engine's programs wrote.
func (e *engine) logs() (text string) {
	for _, p := range []*edge.Process{e.node.Agent, e.node.Envoy, e.node.KubeProxy} {
		if p != nil {
			text += fmt.Sprintf("%s, runs %v:\n%s", p.Name, p.Running(), p.Log())
		}
	}
	return text
}

// address is what a flow dials.
func (e *engine) address(f flow) netip.AddrPort {
	at := func(p pair, n uint16) netip.AddrPort { return netip.AddrPortFrom(p.of(f.ipv6), n) }
	switch f.to {
	case otherPort:
		return at(f.clusterIPs(), noPort)
	case nobodysIP:
		return at(nobody, port)
	case nodePort:
		return at(e.clients[host].ip, f.nodePort())
	case portElsewhere:
		return at(alternative, f.nodePort())
	case portLocalhost:
		return at(addresses("127.0.0.1", "::1"), f.nodePort())
	case externalIP:
		return at(f.externalIPs(), port)
	case vip:
		return at(f.vips(), port)
	case vipOfProxy:
		return at(f.proxyVIPs(), port)
	}
	return at(f.clusterIPs(), port)
}
