package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/kubelet"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/realnode"
	"github.com/gridmesh/gridmesh/test/cluster/sandbox"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// Config describes a cluster.
type Config struct {
	Lab netlab.Config
	// Proxy says what serves a node's Services: "gridmesh", "kube-proxy" or
	// "" for nothing. The key "" is for nodes that are not named.
	Proxy map[string]string
	// Real names nodes with the real kubelet and containerd (package realnode)
	// instead of the stand-in; their network must be Bridged.
	Real []string
	// Later names nodes that have their place in the network and join with Join.
	Later []string
	// Unlabelled names nodes that do not get the label "unit" when they
	// register, which others have with the name of their unit.
	Unlabelled []string
	// NodeGrace is how long a node may be silent before it counts as dead;
	// 0 is 20 s, for tests that wait for that. Kubernetes' own is 50 s.
	NodeGrace time.Duration
	// Bare starts etcd and the API server alone: nothing acts on objects, and
	// nodes are networks without a kubelet, whose Nodes nobody registers.
	Bare bool
	// Images maps further image names to commands; see AppImage.
	Images map[string]kubelet.Image
	// RealImages are further images of real nodes.
	RealImages []realnode.Image
	// AgentFlags are given to every agent.
	AgentFlags []string
	// AgentFlagsOf are given to agents besides, by node.
	AgentFlagsOf map[string][]string
	// Say reports progress; nil for silence.
	Say func(format string, args ...any)
}

// AppImage is an image with the test's own server: see package edge's App.
// A real node's kubelet would ask a registry for it: say gridmesh.test/app:1
// where a pod may land on one.
const AppImage = "gridmesh.test/app"

// ShellImage has no command of its own, and this machine's programs, as every
// image has.
const ShellImage = "shell"

// Cluster is a running cluster.
type Cluster struct {
	Lab        *netlab.Lab
	Kube       kubernetes.Interface
	REST       *rest.Config
	Kubeconfig string
	Nodes      map[string]*Node

	cfg    Config
	dir    string
	images []string // archives that real nodes have
	pki    *pki
	cloud  *controlPlane
}

// Node is a node of a cluster: its network, its kubelet, its proxy.
type Node struct {
	*edge.Node
	// Kubelet is the stand-in or, where Real, the whole machine.
	Kubelet   *edge.Process
	KubeProxy *edge.Process
	Real      bool
	config    string
	cgroup    string // of a real node
	c         *Cluster
}

// Up builds a cluster and waits until its nodes are ready. It must be called
// inside a sandbox.
func Up(ctx context.Context, cfg Config) (*Cluster, error) {
	if cfg.Say == nil {
		cfg.Say = func(string, ...any) {}
	}
	if slices.Contains(slices.Collect(maps.Values(cfg.Proxy)), "kube-proxy") {
		if err := edge.MissingForKubeProxy(); err != nil {
			return nil, err
		}
	}
	c := &Cluster{cfg: cfg, dir: filepath.Join(sandbox.Dir, "cluster"), Nodes: map[string]*Node{}}
	var err error
	if len(cfg.Real) > 0 {
		if c.images, err = builtImages(); err != nil { // before anything takes time
			return nil, err
		}
	}
	if err := mkdir(c.dir); err != nil {
		return nil, err
	}
	if c.pki, err = newPKI(filepath.Join(c.dir, "pki")); err != nil {
		return nil, err
	}
	start := time.Now()
	if c.Lab, err = netlab.Build(cfg.Lab); err != nil {
		return nil, err
	}
	cfg.Say("network of %d units and %d nodes: %s", len(c.Lab.Units), len(c.Lab.Nodes()), since(start))
	start = time.Now()
	c.cloud = &controlPlane{c: c, processes: map[string]*edge.Process{}}
	if err := c.cloud.up(ctx); err != nil {
		return nil, err
	}
	cfg.Say("etcd, API server, controller manager, scheduler: %s", since(start))
	start = time.Now()
	if len(cfg.Real) > 0 {
		if err := c.writeStandIns(); err != nil {
			return nil, err
		}
		cfg.Say("stand-ins for others' images: %s", since(start))
	}
	if err := c.addNodes(ctx); err != nil || cfg.Bare {
		return c, err
	}
	if err := c.WaitNodes(ctx); err != nil {
		return nil, err
	}
	cfg.Say("nodes registered and ready: %s", since(start))
	if err := c.dropStandIns(); err != nil {
		return nil, err
	}
	start = time.Now()
	if err := c.startProxies(ctx); err != nil {
		return nil, err
	}
	cfg.Say("proxies serve: %s", since(start))
	return c, nil
}

// addNodes adds all nodes but those that come later.
func (c *Cluster) addNodes(ctx context.Context) error {
	for _, n := range c.Lab.Nodes() {
		if slices.Contains(c.cfg.Later, n.Name) {
			continue
		}
		if err := c.addNode(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

func since(t time.Time) time.Duration { return time.Since(t).Round(10 * time.Millisecond) }

func (c *Cluster) addNode(ctx context.Context, n *netlab.Node) error {
	e, err := edge.NewNode(n)
	if err != nil {
		return err
	}
	if slices.Contains(c.cfg.Real, n.Name) {
		return c.addReal(ctx, e)
	}
	if c.cfg.Bare {
		c.Nodes[n.Name] = &Node{Node: e, c: c}
		return nil
	}
	kubeconfig, err := c.pki.kubeconfig("node-"+n.Name, "system:node:"+n.Name, "system:nodes", server())
	if err != nil {
		return err
	}
	images := map[string]kubelet.Image{
		AppImage:   program("lab-worker", "app"),
		ShellImage: {},
		// Those that deploy/kustomization.yaml names.
		"gridmesh/agent:dev":       withCLI(program("gridmesh-agent")),
		"gridmesh/controller:dev":  withCLI(program("gridmesh-controller")),
		"gridmesh/admission:dev":   program("gridmesh-admission"),
		"gridmesh/health:dev":      program("gridmesh-health"),
		"gridmesh/dns:dev":         program("gridmesh-dns"),
		"envoyproxy/envoy:v1.40.0": envoyImage(),
	}
	images[AppImage+":1"] = images[AppImage]
	for name, image := range c.cfg.Images {
		images[name] = image
	}
	cfg := kubelet.Config{
		Node: n.Name, Kubeconfig: kubeconfig, Dir: e.Dir, IPs: []string{n.IP.String(), n.IP6.String()},
		PodCIDRs: []string{n.PodCIDR.String(), n.PodCIDR6.String()}, Bridged: n.Network == netlab.Bridged,
		Labels: map[string]string{}, Images: images, Domain: "cluster.local", ClusterDNS: edge.NodeDNS[:1],
	}
	if !slices.Contains(c.cfg.Unlabelled, n.Name) {
		cfg.Labels["unit"] = n.Unit.Name
	}
	data, err := json.MarshalIndent(cfg, "", "  ")
	if err != nil {
		return err
	}
	node := &Node{Node: e, config: filepath.Join(e.Dir, "kubelet.json"), c: c}
	if err := os.WriteFile(node.config, data, 0o600); err != nil {
		return err
	}
	c.Nodes[n.Name] = node
	return node.StartKubelet()
}

// program is an image of one of our binaries.
func program(name string, args ...string) kubelet.Image {
	inside := "/app/" + name
	return kubelet.Image{Command: append([]string{inside}, args...), Files: map[string]string{inside: edge.Binary(name)}}
}

// withCLI adds the people's command line to an image.
func withCLI(image kubelet.Image) kubelet.Image {
	image.Files["/app/gridmesh"] = edge.Binary("gridmesh")
	return image
}

// envoyImage has the published image's entrypoint, and Envoy in the path.
func envoyImage() kubelet.Image {
	image := program("envoy-entrypoint")
	image.Files["/app/envoy"] = edge.Binary("envoy")
	return image
}

// StartKubelet starts the node's kubelet, or boots a real node.
func (n *Node) StartKubelet() (err error) {
	if n.Real {
		return n.boot()
	}
	n.Kubelet, err = edge.Start(n.NS, "kubelet "+n.Name, edge.Binary("lab-worker"), "kubelet", n.config)
	return err
}

func (c *Cluster) startProxies(ctx context.Context) error {
	for _, n := range c.Nodes {
		kind, named := c.cfg.Proxy[n.Name]
		if !named {
			kind = c.cfg.Proxy[""]
		}
		if err := n.StartProxy(kind); err != nil {
			return err
		}
	}
	for _, n := range c.Nodes {
		if n.Agent != nil {
			if err := n.WaitReady(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// StartProxy starts "gridmesh", "kube-proxy" or, for "", nothing.
func (n *Node) StartProxy(kind string) error {
	switch kind {
	case "gridmesh":
		return n.startGridmesh()
	case "kube-proxy":
		return n.StartKubeProxy(NftablesMode)
	}
	return nil
}

func (n *Node) startGridmesh() error {
	kubeconfig, err := n.c.AgentKubeconfig()
	if err != nil {
		return err
	}
	n.Flags = slices.Concat([]string{"--kubeconfig", kubeconfig}, n.c.cfg.AgentFlags, n.c.cfg.AgentFlagsOf[n.Name])
	if err := n.StartAgent(); err != nil {
		return err
	}
	return n.StartEnvoy()
}

// AgentKubeconfig gives agents their rights, and a kubeconfig.
func (c *Cluster) AgentKubeconfig() (string, error) {
	return c.rights("gridmesh-agent", "rbac.yaml")
}

// ControllerKubeconfig gives gridmesh-controller its rights, and a kubeconfig.
func (c *Cluster) ControllerKubeconfig() (string, error) {
	return c.rights("gridmesh-controller", "controller.yaml")
}

// AdmissionKubeconfig gives gridmesh-admission its rights, and a kubeconfig. Nobody asks it
// yet: its configuration is not applied.
func (c *Cluster) AdmissionKubeconfig() (string, error) {
	return c.rights("gridmesh-admission", "admission/admission.yaml")
}

// HealthRights gives node health its rights: the daemons' and those of the controller.
func (c *Cluster) HealthRights() error {
	if _, err := c.ControllerKubeconfig(); err != nil {
		return err
	}
	_, err := c.rights("gridmesh-health", "health/health.yaml")
	return err
}

// rights applies a file of deploy/, workloads aside, and returns the
// kubeconfig of a service account.
func (c *Cluster) rights(account, file string) (string, error) {
	done := c.pki.path(account + ".kubeconfig")
	if _, err := os.Stat(done); err == nil {
		return done, nil
	}
	text, err := os.ReadFile(filepath.Join(edge.Root(), "deploy", file))
	if err != nil {
		return "", err
	}
	docs := slices.DeleteFunc(strings.Split(string(text), "\n---\n"), func(doc string) bool {
		return strings.Contains(doc, "kind: Deployment\n") || strings.Contains(doc, "kind: DaemonSet\n") || strings.Contains(doc, "kind: MutatingWebhookConfiguration\n")
	})
	docs = append([]string{"{apiVersion: v1, kind: Namespace, metadata: {name: gridmesh}}"}, docs...)
	if _, err := wait.For(context.Background(), "the API server to take "+path.Join("deploy", file), func() error { return c.Apply(strings.Join(docs, "\n---\n")) }); err != nil {
		return "", err
	}
	return c.pki.kubeconfig(account, "system:serviceaccount:gridmesh:"+account, "system:serviceaccounts", server())
}

// StartController starts gridmesh-controller in the cloud.
func (c *Cluster) StartController(kubeconfig string, flags ...string) (*edge.Process, error) {
	return edge.Start(c.Lab.Cloud, "controller", append([]string{
		edge.Binary("gridmesh-controller"), "--kubeconfig", kubeconfig, "--healthz-bind-address", "", "--metrics-bind-address", "",
	}, flags...)...)
}

// Kubectl runs kubectl as the administrator, in the cloud.
func (c *Cluster) Kubectl(args ...string) (string, error) {
	return c.KubectlInput(nil, args...)
}

// KubectlInput is Kubectl with standard input.
func (c *Cluster) KubectlInput(input []byte, args ...string) (string, error) {
	// An API server that does not answer must not hang a caller for ever.
	ctx, cancel := context.WithTimeout(context.Background(), 2*wait.Patience)
	defer cancel()
	var out bytes.Buffer
	// With a cache of its own: a cluster at the same address, of a moment ago,
	// had other kinds.
	flags := []string{"kubectl", "--kubeconfig", c.Kubeconfig, "--cache-dir", filepath.Join(c.dir, "kubectl")}
	cmd := exec.CommandContext(ctx, edge.Binary("kube"), append(flags, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &out
	if err := c.Lab.Cloud.Start(cmd); err != nil {
		return "", err
	}
	err := cmd.Wait()
	return out.String(), err
}

// Apply applies manifests.
func (c *Cluster) Apply(yaml string) error {
	out, err := c.KubectlInput([]byte(yaml), "apply", "-f", "-")
	if err != nil {
		return fmt.Errorf("apply: %w: %s", err, out)
	}
	return nil
}
