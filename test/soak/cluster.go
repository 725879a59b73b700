package soak

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/sandbox"
	"github.com/gridmesh/gridmesh/test/soak/model"
	"github.com/gridmesh/gridmesh/test/soak/script"
)

// Soak is one run on one cluster.
type Soak struct {
	world      script.World
	say        func(format string, args ...any)
	begin      time.Time
	c          *cluster.Cluster
	kubeconfig string // the controller's
	controller *edge.Process
	pods       map[string]*pod // the steady app's, by node
	steady     netip.AddrPort
	busy       map[string]bool          // what something is being done to
	killed     map[string]int           // programs, by node
	clocks     map[string]time.Duration // how far they are set ahead, by node or controller
	begun      map[string]time.Time     // agents, where that was after a silence that nobody had noticed, by node
	healed     map[string]time.Time     // uplinks, by unit
	untilCalm  []func()                 // ends of troubles that end when everything is in order
	pending    []ending                 // what is still to be mended
	borders    *borders
	dials      *dials
	probes     *probes
	sockets    map[string]*follower // by node
	watching   int                  // watches that were open at the start
	tally      tally
	reminded   map[string]time.Time // since when an object waits for Kubernetes' own controllers, or was spoken of

	mu       sync.Mutex      // guards what follows
	past     []*edge.Process // programs that were ended, for what they wrote
	history  *model.History
	newest   map[string]uint64 // resource versions, by object
	told     map[string]*model.Told
	unserved map[string]*model.Unserved  // of the steady app, by node
	said     map[string]*model.Readiness // by the kubelets of the steady app's pods, by node
	troubles model.Troubles
}

// pod is the steady app's pod of a node. No step edits that app: whatever else
// is done, it must serve.
type pod struct {
	name, uid, node string
	ip              netip.Addr
	ns              *netlab.NS
}

const appPort = 8080

// steadyApp has a pod on every node, and a Service that stays in the unit. It has the ports
// of the slices that steps write: what is held for it may be held for these.
const steadyApp = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: steady}
spec:
  selector: {matchLabels: {app: steady}}
  template:
    metadata: {labels: {app: steady}}
    spec:
      terminationGracePeriodSeconds: 1
      tolerations: [{operator: Exists}]
      containers:
      - {name: app, image: gridmesh.test/app, ports: [{name: main, containerPort: 8080}, {name: udp, containerPort: 8080, protocol: UDP}], readinessProbe: {tcpSocket: {port: main}, periodSeconds: 1}}
---
apiVersion: v1
kind: Service
metadata: {name: steady, annotations: {topologyKeys: '["unit"]'}}
spec: {selector: {app: steady}, ports: [{name: main, port: 80, targetPort: main}, {name: udp, port: 80, protocol: UDP, targetPort: udp}]}
`

// nodeGrace is how long the cloud waits for a silent node: longer than every
// cut but that of darken, and the least that Kubernetes has ever had by
// default. An agent takes half of it for an outage, and must be first.
const nodeGrace = 40 * time.Second

// Up builds the cluster and starts everything that runs all the while. It must
// be called inside a sandbox, and ends with it.
func Up(ctx context.Context, say func(format string, args ...any)) (*Soak, error) {
	s := &Soak{
		world: script.Small(), say: say, begin: time.Now(), busy: map[string]bool{}, killed: map[string]int{}, clocks: map[string]time.Duration{}, begun: map[string]time.Time{}, healed: map[string]time.Time{}, pods: map[string]*pod{},
		history: model.NewHistory("unit", "zone", "kubernetes.io/hostname"), newest: map[string]uint64{}, told: map[string]*model.Told{}, unserved: map[string]*model.Unserved{}, sockets: map[string]*follower{},
	}
	if err := s.disks(); err != nil {
		return nil, err
	}
	var err error
	if s.c, err = cluster.Up(ctx, cluster.Config{
		Lab: s.lab(), Proxy: map[string]string{"": "gridmesh"}, AgentFlagsOf: s.flags(), NodeGrace: nodeGrace, Say: say,
	}); err != nil {
		return nil, err
	}
	if s.kubeconfig, err = s.c.ControllerKubeconfig(); err != nil {
		return nil, err
	}
	if err := s.startController(); err != nil {
		return nil, err
	}
	for _, f := range []func(context.Context) error{s.zones, s.deploy, s.startDNS, s.follow} {
		if err := f(ctx); err != nil {
			return nil, err
		}
	}
	if s.borders, err = s.watchBorders(); err != nil {
		return nil, err
	}
	for _, node := range s.world.Nodes() {
		go s.watchHolds(context.WithoutCancel(ctx), node) // as long as the sandbox
	}
	if s.probes, err = s.openProbes(); err != nil {
		return nil, err
	}
	s.probes.start(ctx, s.say)
	s.dials = s.startDials(ctx)
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	s.dials.take() // what failed before all was there counts for nothing
	s.tally = tally{repairs: map[int]int{}}
	s.watching, err = s.watches(ctx, watched)
	return s, err
}

// lab is the network: a link between the first two units, uplinks otherwise,
// and both kinds of pod network.
func (s *Soak) lab() netlab.Config {
	cfg := netlab.Config{Links: [][2]string{{s.world.Units[0].Name, s.world.Units[1].Name}}}
	for _, u := range s.world.Units {
		unit := netlab.UnitConfig{Name: u.Name}
		for i := range u.Nodes {
			unit.Nodes = append(unit.Nodes, []netlab.PodNetwork{netlab.Routed, netlab.Bridged}[i%2])
		}
		cfg.Units = append(cfg.Units, unit)
	}
	return cfg
}

// onePath is the unit whose agents have Envoy alone: there a neighbour's dead pod
// excuses nothing, to which the kernel sends its share until it is told.
const onePath = "a"

// twoPaths are the nodes of all others, which have both paths.
func (s *Soak) twoPaths() (list []string) {
	for _, u := range s.world.Units {
		if u.Name != onePath {
			list = append(list, u.Nodes...)
		}
	}
	return list
}

// flags are those of agents, by node.
func (s *Soak) flags() map[string][]string {
	list := map[string][]string{}
	for _, node := range s.world.Nodes() {
		list[node] = []string{"--datapath", "envoy"}
	}
	for _, node := range s.twoPaths() {
		list[node] = []string{"--datapath", "auto"}
	}
	return list
}

// disks gives each node's state directory a small disk of its own, which can
// be filled.
func (s *Soak) disks() error {
	for _, node := range s.world.Nodes() {
		dir := stateDir(node)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount("disk", dir, "tmpfs", 0, "size=8m,mode=755"); err != nil {
			return fmt.Errorf("mount a disk for %s: %w", node, err)
		}
	}
	return nil
}

func nodeDir(node string) string  { return filepath.Join(sandbox.Dir, "node", node) }
func stateDir(node string) string { return filepath.Join(nodeDir(node), "state") }

// controllerMetrics is where the controller says how it is, in the cloud.
const controllerMetrics = "127.0.0.1:10349"

func (s *Soak) startController() (err error) {
	if s.controller != nil {
		s.over(s.controller)
	}
	if s.controller, err = s.c.StartController(s.kubeconfig, "--leader-elect=false", "--metrics-bind-address", controllerMetrics); err != nil {
		return err
	}
	return s.inTime(script.Controller, s.controller)
}

// zones gives every node a second label that Services go by.
func (s *Soak) zones(ctx context.Context) error {
	for _, node := range s.world.Nodes() {
		if err := s.label(ctx, node, "zone", s.world.UnitOf(node)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Soak) deploy(ctx context.Context) error {
	if err := s.c.Apply(steadyApp); err != nil {
		return err
	}
	list, err := s.c.WaitPods(ctx, "default", "app=steady", len(s.world.Nodes()))
	if err != nil {
		return err
	}
	for i := range list {
		p := &pod{name: list[i].Name, uid: string(list[i].UID), node: list[i].Spec.NodeName}
		if p.ip, err = netip.ParseAddr(list[i].Status.PodIP); err != nil {
			return fmt.Errorf("the address of %s: %w", p.name, err)
		}
		if p.ns, err = netlab.OpenNS("pod-" + p.uid); err != nil {
			return err
		}
		s.pods[p.node] = p
	}
	svc, err := s.c.Kube.CoreV1().Services("default").Get(ctx, "steady", metav1.GetOptions{})
	if err != nil {
		return err
	}
	ip, err := netip.ParseAddr(svc.Spec.ClusterIP)
	s.steady = netip.AddrPortFrom(ip, 80)
	return err
}

func (s *Soak) startDNS(context.Context) error {
	for _, n := range s.c.Nodes {
		n.DNSDir = stateDir(n.Name) // as deploy/ has it: the same disk
		if err := n.StartDNS(netlab.CloudIP.String()); err != nil {
			return err
		}
	}
	return nil
}

// patience is how long everything may take to be in order again, after what
// was done was mended: five times what one core with race detectors needs.
const patience = 3 * time.Minute

// settle waits until everything is in order.
func (s *Soak) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var w waited
	s.reminded = map[string]time.Time{}
	took, err := w.until(ctx, s.allRun, s.inOrder)
	took = took.Round(time.Millisecond)
	if err != nil {
		return &Violation{Judge: "convergence", Text: fmt.Sprintf("not in order %s after everything was mended: %v\n%s", took, err, &w)}
	}
	s.tally.settled = max(s.tally.settled, took)
	s.say("in order after %s%s", took, w.unlessShort(took))
	return nil
}

// inOrder reports what is not as it should be: programs, what others make of
// the objects that steps write, what agents know of these, and what they and
// their Envoys make of it.
func (s *Soak) inOrder(ctx context.Context) error {
	if err := s.allRun(); err != nil {
		return &missing{"", "all programs run", err}
	}
	if err := s.c.NodesReady(ctx); err != nil {
		return &missing{"", "the nodes are ready", err}
	}
	o, err := s.objects(ctx)
	if err != nil {
		return &missing{"", "the API server has the objects", err}
	}
	if err := o.settled(s.world); err != nil {
		s.remind(ctx, err)
		return &missing{"", "objects are what was written", err}
	}
	if err := s.heard(o); err != nil {
		return &missing{"", "our own watches have told of them", err}
	}
	for _, node := range s.world.Nodes() {
		for _, c := range []struct {
			check string
			holds func(context.Context, string) error
		}{
			{"its agent knows them", s.upToDate},
			{"its agent and Envoy act on them", s.obeys},
			{"the steady app answers", s.serves},
		} {
			if err := c.holds(ctx, node); err != nil {
				return &missing{node, c.check, err}
			}
		}
	}
	return nil
}

// serves reports whether node and pod reach the steady app, by its name too.
func (s *Soak) serves(_ context.Context, node string) error {
	for who, ns := range map[string]*netlab.NS{"the node": s.c.Nodes[node].NS, "its pod": s.pods[node].ns} {
		if _, err := edge.Ask(ns, "tcp", s.steady, dialTimeout); err != nil {
			return fmt.Errorf("from %s: %w", who, err)
		}
	}
	if err := s.resolves(node); err != nil {
		return fmt.Errorf("by its name: %w", err)
	}
	return nil
}

// allRun reports what has ended by itself.
func (s *Soak) allRun() error {
	for _, p := range s.programs() {
		if !p.Running() {
			return fmt.Errorf("%s has ended:\n%s", p.Name, lastLines(p.Log(), 4<<10))
		}
	}
	return nil
}

// programs are all that must run while nothing is done.
func (s *Soak) programs() []*edge.Process {
	list := []*edge.Process{s.controller}
	for _, n := range s.c.Nodes {
		list = append(list, n.Kubelet, n.Agent, n.Envoy, n.DNS)
	}
	return list
}
