package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

func demoCommand() *cobra.Command {
	var keep, health bool
	cmd := &cobra.Command{
		Use: "demo", Short: "Show the main job: traffic stays in its unit, whatever is cut or killed", Args: cobra.NoArgs,
		Example: "  lab demo --keep\n  lab demo --health",
		RunE: kept(func() (bool, error) { return keep, nil }, func(ctx context.Context, s *server) error {
			d := &demo{begin: time.Now()}
			if health {
				return d.runHealth(ctx, s)
			}
			return d.run(ctx, s)
		}),
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the cluster running at the end")
	cmd.Flags().BoolVar(&health, "health", false, "show node health instead: a node that only lost its uplink stays, one that died is evicted (2 minutes)")
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

// demo tells a story in steps; each waits for what it needs, and checks what
// it says.
type demo struct {
	begin      time.Time
	c          *cluster.Cluster
	controller *keeper
	to         netip.AddrPort               // the shop's Service
	pods       map[string]*pod              // the shop's, by name
	names      map[string]map[string]string // node -> name -> address
	rows       []row
}

func (d *demo) step(text string) {
	fmt.Printf("\n[%5.1fs] %s\n", time.Since(d.begin).Seconds(), text)
}

// tell takes the steps of a story, and sums it up.
func (d *demo) tell(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return d.summary()
}

// run tells the story; the server lets people at what is left at the end, and
// is nil where nothing is.
func (d *demo) run(ctx context.Context, s *server) error {
	if err := d.tell(ctx, d.up, d.deploy, d.closed, d.namesResolve, d.newUnit, d.cutUplink, d.killPod, d.killNode, d.givenUp, d.restart, d.heal); err != nil {
		return err
	}
	if s == nil {
		fmt.Println("\nLook around yourself: make demo KEEP=1. A node that only lost its uplink, and one that dies: make demo HEALTH=1")
		return nil
	}
	if out, err := d.c.Kubectl("delete", "service/"+markName, "endpointslice/"+markName); err != nil {
		return fmt.Errorf("remove what the demo alone needed: %w: %s", err, out)
	}
	fmt.Print(`
The cluster stays until Ctrl-C or "bin/lab down". In another shell:
  bin/lab status
  bin/lab kubectl get pods -o wide
  bin/lab exec a-1 gridmesh view
  bin/lab exec a-1 gridmesh-agent status
  bin/lab cut uplink a; bin/lab heal uplink a
`)
	return s.serve(ctx, d.c, d.controller)
}

func (d *demo) up(whole context.Context) (err error) {
	d.step("Two units of two nodes each, and a node that is in none: a real API server and gridmesh-controller in the cloud, an agent and an Envoy on every node (about 12 s)")
	ctx, cancel := context.WithTimeout(whole, upTimeout)
	defer cancel()
	lab := labConfig(3, 2)
	lab.Units[2].Nodes = lab.Units[2].Nodes[:1]
	d.c, err = cluster.Up(ctx, cluster.Config{Lab: lab, Unlabelled: []string{"c-1"}, Proxy: map[string]string{"": gridmesh}, Say: say})
	if err != nil {
		return err
	}
	d.controller, err = keepController(whole, d.c)
	return err
}

func (d *demo) deploy(ctx context.Context) error {
	d.step("Grids with gridUniqKey: unit: every unit runs the shop and a database, and talks to itself")
	if err := d.wait(ctx, "the API server to take grids, whose kinds the controller brings", func() error { return d.c.Apply(shopGrid + "---" + dbGrid) }); err != nil {
		return err
	}
	return d.learn(ctx, "a", "b")
}

func (d *demo) closed(ctx context.Context) error {
	d.step("Every node and every pod asks the Service: each unit answers itself")
	nodes := []string{"a-1", "a-2", "b-1", "b-2"}
	if err := d.settle(ctx, nodes...); err != nil {
		return err
	}
	return d.mustBeClosed("all is well", nodes...)
}

func (d *demo) newUnit(ctx context.Context) error {
	d.step("The fifth node gets a label: a third unit comes alive")
	start := time.Now()
	if err := d.wait(ctx, "the API server to take a label", func() error { return d.kubectl("label", "--overwrite", "node", "c-1", "unit=c") }); err != nil {
		return err
	}
	if err := d.learn(ctx, "a", "b", "c"); err != nil {
		return err
	}
	if err := d.settle(ctx, "c-1"); err != nil {
		return err
	}
	say("unit c serves itself %s after the label", time.Since(start).Round(10*time.Millisecond))
	if err := d.grids(ctx); err != nil {
		return err
	}
	return d.mustBeClosed("a third unit", "a-1", "a-2", "b-1", "b-2", "c-1")
}

// grids prints what kubectl says of them, once their status is written.
func (d *demo) grids(ctx context.Context) error {
	for _, grid := range []string{"deploymentgrid/shop", "statefulsetgrid/db"} {
		if err := d.wait(ctx, "the status of "+grid+" to say that three units are ready", func() error {
			return d.kubectl("wait", "--for=jsonpath={.status.readyUnits}=3", "--timeout=30s", grid)
		}); err != nil {
			return err
		}
	}
	out, err := d.c.Kubectl("get", "dg,ssg,sg")
	if err != nil {
		return fmt.Errorf("kubectl get: %w: %s", err, out)
	}
	fmt.Print("\n", out)
	return nil
}

func (d *demo) cutUplink(ctx context.Context) error {
	say("waiting until a-1 has this on disk: the last good state is written within a second, or 10 s where changes go on and on")
	if err := d.kept(ctx, "a-1"); err != nil {
		return err
	}
	d.step("The uplink of unit a is cut, for longer than the cloud waits for a node: no API server")
	if err := d.c.Lab.Unit("a").CutUplink(); err != nil {
		return err
	}
	if err := d.mustBeClosed("uplink of a cut", "a-1", "a-2"); err != nil {
		return err
	}
	return d.noCloud()
}

func (d *demo) killPod(ctx context.Context) error {
	d.step("Unit a still has no cloud. The process of the pod on a-1 is killed: nobody but Envoy notices")
	p, err := d.podOn("a-1")
	if err != nil {
		return err
	}
	d.c.Nodes["a-1"].Kubelet.Signal(syscall.SIGSTOP) // or it would start it again at once
	if err := edge.KillPod(p.uid); err != nil {
		return err
	}
	if err := d.wait(ctx, "the killed pod's port to refuse", func() error {
		// A dying process may still take connections for a moment.
		if err := d.askPod(p); !errors.Is(err, syscall.ECONNREFUSED) {
			return fmt.Errorf("a connection to %s: %w", p.name, orAnswered(err))
		}
		return nil
	}); err != nil {
		return err
	}
	return d.mustBeClosed("pod on a-1 killed", "a-1", "a-2")
}

func (d *demo) killNode(ctx context.Context) error {
	d.step("Node a-2 is parted from everything, in silence; the pod on a-1 comes back")
	d.c.Nodes["a-1"].Kubelet.Signal(syscall.SIGCONT)
	near, err := d.podOn("a-1")
	if err != nil {
		return err
	}
	far, err := d.podOn("a-2")
	if err != nil {
		return err
	}
	if err := d.wait(ctx, "the pod on a-1 to come back", func() error { return d.askPod(near) }); err != nil {
		return err
	}
	if err := d.c.Lab.Node("a-2").Cut(); err != nil {
		return err
	}
	if err := d.mustBeClosed("node a-2 dead", "a-1"); err != nil {
		return err
	}
	if d.reaches("a-1", netip.AddrPortFrom(far.ip, appPort)) {
		return errors.New("the pod on a-2 still answers a-1: the node was not parted")
	}
	return nil
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
	if err := d.askNames(ctx, "a-1"); err != nil {
		return err
	}
	// For the first second or two it is the kernel that serves, which does not know who is dead.
	if err := d.wait(ctx, "Envoy to have its part again", n.ServesByEnvoy); err != nil {
		return err
	}
	if err := d.settle(ctx, "a-1"); err != nil {
		return err
	}
	say("names and Service are served again after %s", time.Since(start).Round(time.Millisecond))
	if err := d.mustBeClosed("agent and Envoy restarted", "a-1"); err != nil {
		return err
	}
	return d.noCloud()
}
