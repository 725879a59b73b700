package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

func demoCommand() *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use: "demo", Short: "Show the main job: traffic stays in its unit, whatever is cut or killed", Args: cobra.NoArgs,
		RunE: sandboxed(func(ctx context.Context) error {
			d := &demo{begin: time.Now()}
			return d.run(ctx, keep)
		}),
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the cluster running at the end")
	return cmd
}

// shopGrid is the demonstration's application: two pods in every unit, one a
// node where there are two, and a Service that stays in the unit.
const shopGrid = `
apiVersion: superedge.io/v1
kind: DeploymentGrid
metadata: {name: shop}
spec:
  gridUniqKey: unit
  template:
    replicas: 2
    selector: {matchLabels: {app: shop}}
    template:
      metadata: {labels: {app: shop}}
      spec:
        terminationGracePeriodSeconds: 1
        topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: shop}}}]
        containers:
        - {name: shop, image: gridmesh.test/app, ports: [{name: main, containerPort: 8080}], readinessProbe: {tcpSocket: {port: main}, periodSeconds: 1}}
---
apiVersion: superedge.io/v1
kind: ServiceGrid
metadata: {name: shop}
spec:
  gridUniqKey: unit
  template: {selector: {app: shop}, ports: [{port: 80, targetPort: main}]}
`

// demo tells a story in steps; each checks what it says.
type demo struct {
	begin time.Time
	c     *cluster.Cluster
	to    netip.AddrPort
	unit  map[string]string // pod -> unit
	node  map[string]string // pod -> node
	ip    map[string]netip.Addr
	names map[string]map[string]string // node -> name -> address
	rows  []row
}

type row struct {
	what    string
	asked   int
	own     int
	foreign int
	failed  int
}

func (d *demo) step(text string) {
	fmt.Printf("\n[%5.1fs] %s\n", time.Since(d.begin).Seconds(), text)
}

func (d *demo) run(ctx context.Context, keep bool) error {
	for _, f := range []func(context.Context) error{d.up, d.deploy, d.closed, d.namesResolve, d.newUnit, d.cutUplink, d.killPod, d.killNode, d.restart, d.heal} {
		if err := f(ctx); err != nil {
			return err
		}
	}
	if err := d.summary(); err != nil {
		return err
	}
	if !keep {
		fmt.Println("\nLook around yourself: make demo KEEP=1")
		return nil
	}
	fmt.Print(`
The cluster stays until Ctrl-C or "bin/lab down". In another shell:
  bin/lab status
  bin/lab kubectl get pods -o wide
  bin/lab exec a-1 gridmesh view --node a-1 --socket /run/lab/node/a-1/feed.sock
  bin/lab exec a-1 gridmesh-agent status --node-name a-1 --status-socket /run/lab/node/a-1/agent.sock
  bin/lab cut uplink a; bin/lab heal uplink a
`)
	return serve(ctx, d.c)
}

func (d *demo) up(ctx context.Context) (err error) {
	d.step("Two units of two nodes each, and a node that is in none: a real API server and gridmesh-controller in the cloud, an agent and an Envoy on every node (about 12 s)")
	ctx, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	lab := labConfig(3, 2)
	lab.Units[2].Nodes = lab.Units[2].Nodes[:1]
	d.c, err = cluster.Up(ctx, cluster.Config{Lab: lab, Unlabelled: []string{"c-1"}, Proxy: map[string]string{"": "gridmesh"}, Say: say})
	if err != nil {
		return err
	}
	kubeconfig, err := d.c.ControllerKubeconfig()
	if err != nil {
		return err
	}
	_, err = d.c.StartController(kubeconfig)
	return err
}

func (d *demo) deploy(ctx context.Context) error {
	d.step("Grids with gridUniqKey: unit: every unit runs the shop and a database, and talks to itself")
	soon, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := cluster.Until(soon, func() error { return d.c.Apply(shopGrid + "---" + dbGrid) }); err != nil { // the CRDs may just be coming
		return err
	}
	return d.learn(ctx, 4)
}

func (d *demo) newUnit(ctx context.Context) error {
	d.step("The fifth node gets a label: a third unit comes alive")
	start := time.Now()
	if _, err := d.c.Kubectl("label", "node", "c-1", "unit=c"); err != nil {
		return err
	}
	if err := d.learn(ctx, 6); err != nil {
		return err
	}
	if err := d.settle(ctx, "c-1"); err != nil {
		return err
	}
	say("unit c serves itself %s after the label", time.Since(start).Round(10*time.Millisecond))
	if err := d.grids(); err != nil {
		return err
	}
	return d.mustBeClosed(d.ask("a third unit", "a-1", "a-2", "b-1", "b-2", "c-1"))
}

// grids prints what kubectl says of them, once their status is written.
func (d *demo) grids() error {
	if out, err := d.c.Kubectl("wait", "--for=jsonpath={.status.readyUnits}=3", "--timeout=20s", "deploymentgrid/shop"); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	out, err := d.c.Kubectl("get", "dg,sg")
	if err != nil {
		return err
	}
	fmt.Print("\n", out)
	return nil
}

// learn waits for n ready pods and notes where they are.
func (d *demo) learn(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	pods, err := d.c.WaitPods(ctx, "default", "app=shop", n)
	if err != nil {
		return err
	}
	svc, err := d.c.Kube.CoreV1().Services("default").Get(ctx, "shop-svc", metav1.GetOptions{})
	if err != nil {
		return err
	}
	d.to = netip.AddrPortFrom(netip.MustParseAddr(svc.Spec.ClusterIP), 80)
	d.unit, d.node, d.ip = map[string]string{}, map[string]string{}, map[string]netip.Addr{}
	for _, p := range pods {
		d.unit[p.Name], d.node[p.Name] = d.c.Nodes[p.Spec.NodeName].Unit.Name, p.Spec.NodeName
		d.ip[p.Name] = netip.MustParseAddr(p.Status.PodIP)
	}
	say("%d pods are ready; the Service is %s", n, d.to)
	return nil
}

// requests is how often each place asks.
const requests = 25

// ask dials the Service from the given nodes and from their pods.
func (d *demo) ask(what string, nodes ...string) row {
	r := row{what: what}
	for _, name := range nodes {
		node := d.c.Nodes[name]
		for _, ns := range d.places(name) {
			for range requests {
				r.asked++
				switch a, err := edge.Ask(ns, "tcp", d.to, 3*time.Second); {
				case err != nil:
					if r.failed++; r.failed == 1 {
						say("from %s: %v", ns.Name, err)
					}
				case d.unit[a.Name] == node.Unit.Name:
					r.own++
				default:
					r.foreign++
				}
			}
		}
	}
	d.rows = append(d.rows, r)
	say("%d requests: %d answered by the own unit, %d by the other, %d failed", r.asked, r.own, r.foreign, r.failed)
	return r
}

// places are a node and the pods on it.
func (d *demo) places(node string) []*netlab.NS {
	places := []*netlab.NS{d.c.Nodes[node].NS}
	for pod, on := range d.node {
		if on != node {
			continue
		}
		if uid, err := d.podUID(pod); err == nil {
			if ns, err := netlab.OpenNS("pod-" + uid); err == nil {
				places = append(places, ns)
			}
		}
	}
	return places
}

// podUID remembers nothing: pods are few, and their names are on disk.
func (d *demo) podUID(pod string) (string, error) {
	entries, err := os.ReadDir("/run/netns")
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		uid, ok := strings.CutPrefix(e.Name(), "pod-")
		if !ok {
			continue
		}
		hostname, err := os.ReadFile(fmt.Sprintf("/run/lab/node/%s/pods/%s/containers/shop/init.json", d.node[pod], uid))
		if err == nil && strings.Contains(string(hostname), `"hostname":"`+pod+`"`) {
			return uid, nil
		}
	}
	return "", errors.New("not found")
}

func (d *demo) mustBeClosed(r row) error {
	if r.foreign > 0 || r.failed > 0 {
		return fmt.Errorf("%s: %d of %d requests left the unit, %d failed", r.what, r.foreign, r.asked, r.failed)
	}
	return nil
}

func (d *demo) settle(ctx context.Context, nodes ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return cluster.Until(ctx, func() error {
		for _, n := range nodes {
			if _, err := edge.Ask(d.c.Nodes[n].NS, "tcp", d.to, time.Second); err != nil {
				return err
			}
		}
		return nil
	})
}

// answers waits until the pod of a node serves by its own address.
func (d *demo) answers(ctx context.Context, node string) error {
	return cluster.Until(ctx, func() error { return d.answersNow(node) })
}

func (d *demo) answersNow(node string) error {
	for pod, on := range d.node {
		if on == node {
			_, err := edge.Ask(d.c.Nodes[node].NS, "tcp", netip.AddrPortFrom(d.ip[pod], 8080), time.Second)
			return err
		}
	}
	return errors.New("no pod")
}

func (d *demo) closed(ctx context.Context) error {
	d.step("Every node and every pod asks the Service: each unit answers itself")
	if err := d.settle(ctx, "a-1", "a-2", "b-1", "b-2"); err != nil {
		return err
	}
	return d.mustBeClosed(d.ask("all is well", "a-1", "a-2", "b-1", "b-2"))
}

func (d *demo) cutUplink(context.Context) error {
	say("waiting 11 s: the last good state is written to disk every 10 s")
	time.Sleep(11 * time.Second)
	d.step("The uplink of unit a is cut: no cloud, no API server")
	if err := d.c.Lab.Unit("a").CutUplink(); err != nil {
		return err
	}
	return d.mustBeClosed(d.ask("uplink of a cut", "a-1", "a-2"))
}

func (d *demo) killPod(ctx context.Context) error {
	d.step("Unit a still has no cloud. The process of the pod on a-1 is killed: nobody but Envoy notices")
	node := d.c.Nodes["a-1"]
	before := node.Kubelet
	before.Signal(syscall.SIGSTOP) // or the kubelet would start it again at once
	for pod, on := range d.node {
		if on == "a-1" {
			uid, err := d.podUID(pod)
			if err != nil {
				return err
			}
			if err := killPodProcesses(uid); err != nil {
				return err
			}
		}
	}
	// A dying process may still take connections for a moment.
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := cluster.Until(ctx, func() error {
		if d.answersNow("a-1") == nil {
			return errors.New("the killed pod still answers")
		}
		return nil
	}); err != nil {
		return err
	}
	return d.mustBeClosed(d.ask("pod on a-1 killed", "a-1", "a-2"))
}

func (d *demo) killNode(ctx context.Context) error {
	d.step("Node a-2 is parted from everything, in silence; the pod on a-1 comes back")
	d.c.Nodes["a-1"].Kubelet.Signal(syscall.SIGCONT)
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := d.answers(ctx, "a-1"); err != nil {
		return err
	}
	if err := d.c.Lab.Node("a-2").Cut(); err != nil {
		return err
	}
	return d.mustBeClosed(d.ask("node a-2 dead", "a-1"))
}

func (d *demo) restart(ctx context.Context) error {
	d.step("Agent, Envoy and DNS of a-1 are killed and started again, still without a cloud")
	n := d.c.Nodes["a-1"]
	n.Agent.Kill()
	n.Envoy.Kill()
	n.DNS.Kill()
	start := time.Now()
	if err := errors.Join(n.StartAgent(), n.StartEnvoy(), n.StartDNS(netlab.CloudIP.String())); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := d.askNames(ctx, "a-1"); err != nil {
		return err
	}
	if err := d.settle(ctx, "a-1"); err != nil {
		return err
	}
	say("names and Service are served again after %s", time.Since(start).Round(time.Millisecond))
	return d.mustBeClosed(d.ask("agent and Envoy restarted", "a-1"))
}

func (d *demo) heal(ctx context.Context) error {
	d.step("Everything heals")
	if err := errors.Join(d.c.Lab.Node("a-2").Heal(), d.c.Lab.Unit("a").HealUplink()); err != nil {
		return err
	}
	if err := d.learn(ctx, 6); err != nil {
		return err
	}
	if err := d.settle(ctx, "a-1", "a-2"); err != nil {
		return err
	}
	return d.mustBeClosed(d.ask("healed", "a-1", "a-2", "b-1", "b-2", "c-1"))
}

func (d *demo) summary() error {
	fmt.Println()
	t := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "SITUATION\tREQUESTS\tOWN UNIT\tOTHER UNIT\tFAILED")
	for _, r := range d.rows {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\n", r.what, r.asked, r.own, r.foreign, r.failed)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, u := range d.c.Lab.Units {
		l, err := u.Leaks()
		if err != nil {
			return err
		}
		fmt.Printf("unit %s: %d packets to Service addresses and %d new connections to foreign pods crossed its border\n", u.Name, l.Service, l.Foreign)
		if l != (netlab.Leaks{}) {
			return fmt.Errorf("unit %s leaked", u.Name)
		}
	}
	fmt.Printf("done in %s\n", time.Since(d.begin).Round(100*time.Millisecond))
	return nil
}
