package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node"
	"github.com/gridmesh/gridmesh/node/cleanup"
	"github.com/gridmesh/gridmesh/topology"
)

// config is every choice that the flags offer.
type config struct {
	node       node.Config
	capture    plan.Config
	kubeconfig string
	manifests  string
	procSys    string
	verbose    bool
	// clientConnections is how many one client may hold; 0 for a quarter of
	// what Envoy says that it takes.
	clientConnections int
	tracking          capture.Tracking
	file              string // of --config

	// Flags in words of their own, which complete reads.
	mark, datapath, bridgeNF, keysReading, policies, takeOver string
	podCIDRs, serviceCIDRs, nodePorts                         []string

	// Of bootstrap alone.
	adminSocket  string
	output       string
	envoyHeapMiB uint64

	// Of status alone.
	format string
	check  bool

	// Of cleanup alone.
	files, stay bool
	handOver    string
}

func defaults() *config {
	return &config{
		node: node.Default(), capture: plan.Default(), tracking: capture.DefaultTracking(), adminSocket: "/run/gridmesh/envoy-admin.sock",
		mark: "0x1/0x3", datapath: "auto", bridgeNF: "clear", keysReading: "ordered", policies: "warn",
		format: formatTable,
	}
}

func (c *config) bind(f *pflag.FlagSet) {
	n := &c.node
	f.StringVar(&c.file, "config", "", "file of flags, a key each, as docs/agent.md shows; what is given beside it wins")
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig of the API server, at its real address and not at a ClusterIP (default: in-cluster credentials)")
	f.StringVar(&c.manifests, "manifests", "", "read Services, EndpointSlices and Nodes from this directory instead of an API server")
	f.StringVar(&n.Node, "node-name", hostName(), "name of this node")
	f.StringVar(&n.StateDir, "state-dir", n.StateDir, "directory of the last good state, the lock and saved sysctls")
	f.StringVar(&n.XDSSocket, "xds-socket", n.XDSSocket, "Unix socket that Envoy connects to")
	f.StringVar(&n.StatusSocket, "status-socket", n.StatusSocket, "Unix socket for status")
	f.StringVar(&c.adminSocket, "admin-socket", c.adminSocket, "Unix socket of Envoy's admin interface, which bootstrap sets up and the agent asks")
	f.StringVar(&n.FeedSocket, "feed-socket", n.FeedSocket, "Unix socket that feeds other processes of this node")
	f.StringVar(&n.DeadNodesFile, "dead-nodes-file", n.DeadNodesFile, "where gridmesh-health of this node tells whom its unit votes dead: while the API server is away endpoints on others come first; empty for nowhere")
	f.StringVar(&c.procSys, "proc-sys", "/proc/sys", "where /proc/sys can be written to")
	f.StringVar(&n.HealthzAddress, "healthz-bind-address", n.HealthzAddress, "address of /healthz, /readyz and /livez; empty for none")
	f.StringVar(&n.MetricsAddress, "metrics-bind-address", n.MetricsAddress, "address of /metrics; empty for none")
	f.StringSliceVar(&c.podCIDRs, "pod-cidr", nil, "pod CIDRs of this node (default: the Node's podCIDRs; without any, sources are not kept)")
	f.StringSliceVar(&c.serviceCIDRs, "service-cidr", nil, "ranges of ClusterIPs to guard, besides the cluster's ServiceCIDR objects")
	f.StringVar(&c.mark, "mark", c.mark, "BITS/MASK of captured packets; the rest of MASK marks Envoy's own")
	f.IntVar(&c.capture.Table, "route-table", c.capture.Table, "number of the route table")
	f.Uint16Var(&c.capture.Ports.Base, "listen-port-base", c.capture.Ports.Base, "first loopback port of the capture listeners")
	f.DurationVar(&n.Render.ConnectTimeout, "connect-timeout", n.Render.ConnectTimeout, "how long Envoy waits for an endpoint of the unit before it tries the next")
	f.IntVar(&n.PreloadMax, "preload-max", n.PreloadMax, "most clusters that Envoy holds without being asked")
	f.Uint64Var(&c.envoyHeapMiB, "envoy-heap-limit", 0, "MiB of heap at which Envoy stops to accept connections, for bootstrap; 0 for no limit")
	f.IntVar(&c.clientConnections, "client-connections", 0, "most TCP connections that one client address may hold through Envoy; 0 for a quarter of what --envoy-heap-limit lets Envoy take")
	f.StringVar(&c.keysReading, "topology-keys", c.keysReading, "reading of several topologyKeys: ordered, or union as SuperEdge's")
	f.StringVar(&c.datapath, "datapath", c.datapath, "what serves connections: auto, Envoy for TCP of Services with topologyKeys and the kernel for the rest, and for all while Envoy is absent; kernel alone; or envoy alone, ClusterIPs and nothing else")
	f.StringSliceVar(&c.nodePorts, "nodeport-addresses", nil, "not with --datapath envoy: ranges of this node's addresses at which node ports are served, or primary (default: primary, the InternalIPs of its Node)")
	f.StringVar(&c.bridgeNF, "bridge-netfilter", c.bridgeNF, "bridge-nf-call-iptables where pods hang on a bridge: clear sets it to 0, keep leaves it and redirects instead")
	f.BoolVar(&n.CloseOnMove, "close-on-move", false, "close open TCP connections through Envoy to endpoints that a Service's topologyKeys no longer allow, after a node or a Service changed; those by the kernel live on")
	f.StringVar(&n.HostsFile, "hosts-file", "", "keep the names {set}-{i} of StatefulSetGrids of this unit in this hosts file, for a DNS server of your own")
	f.StringVar(&n.ClusterDomain, "cluster-domain", n.ClusterDomain, "zone of the names in --hosts-file")
	f.StringVar(&c.policies, "network-policies", c.policies, "where policies would be bypassed on the client's node (docs/limits.md): warn; or refuse: serve all by the kernel beside a policy engine, with --datapath envoy do not start on a node that was not served before")
	f.StringVar(&c.takeOver, "take-over", "", "kube-proxy: start beside its rules instead of refusing to, come before them, and remove them once it is gone; not with --datapath envoy")
	c.bindTracking(f)
	f.BoolVarP(&c.verbose, "verbose", "v", false, "log more")
	run.Files(f, "config", "kubeconfig", "manifests", "state-dir", "xds-socket", "status-socket", "admin-socket", "feed-socket", "proc-sys", "hosts-file", "dead-nodes-file")
}

// bindTracking has kube-proxy's flags of the kernel's table of connections.
func (c *config) bindTracking(f *pflag.FlagSet) {
	t := &c.tracking
	f.IntVar(&t.MaxPerCore, "conntrack-max-per-core", t.MaxPerCore, "connections that the kernel tracks at least, for each core; 0 leaves its bound as it is")
	f.IntVar(&t.Min, "conntrack-min", t.Min, "connections that the kernel tracks at least, however few cores there are; --conntrack-max-per-core=0 leaves its bound as it is")
	f.DurationVar(&t.TCPEstablished, "conntrack-tcp-timeout-established", t.TCPEstablished, "how long the kernel remembers an open TCP connection that is silent, at least; 0 leaves that as it is")
	f.DurationVar(&t.TCPCloseWait, "conntrack-tcp-timeout-close-wait", t.TCPCloseWait, "how long it remembers one that one side has closed, at least; 0 leaves that as it is")
	f.DurationVar(&t.UDP, "conntrack-udp-timeout", t.UDP, "how long it remembers a UDP flow that nobody has answered, at least; 0 leaves that as it is")
	f.DurationVar(&t.UDPStream, "conntrack-udp-timeout-stream", t.UDPStream, "how long it remembers another UDP flow, at least; 0 leaves that as it is")
	f.BoolVar(&t.Liberal, "conntrack-tcp-be-liberal", t.Liberal, "have the kernel track TCP packets out of the window, too (nf_conntrack_tcp_be_liberal)")
}

// choices are the values of flags that have a fixed choice.
var choices = map[string][]string{
	"topology-keys": {"ordered", "union"}, "datapath": {"auto", "kernel", "envoy"}, "nodeport-addresses": {primary}, "bridge-netfilter": {"clear", "keep"}, "network-policies": {"warn", "refuse"},
	"take-over": {kubeProxy},
}

// primary stands for the node's own addresses, in kube-proxy's words.
const primary = "primary"

// kubeProxy is whom an agent takes over from, and hands over to.
const kubeProxy = "kube-proxy"

// hostName is the name of this host as the kubelet takes it for the Node's.
func hostName() string {
	host, _ := os.Hostname()
	return strings.ToLower(host)
}

// complete checks the flags and fills what depends on several of them.
func (c *config) complete() error {
	errs := []error{c.readWords(), c.readPaths()}
	if errs[0] == nil { // its own mistakes are named already
		errs = append(errs, c.capture.Validate())
	}
	n := &c.node
	n.ProxyMode, n.PodCIDRs, n.ServiceCIDRs = c.datapath, c.capture.PodCIDRs, c.capture.ServiceCIDRs
	n.Render.Ports, n.Render.Mark, n.Render.Redirect = c.capture.Ports, c.capture.Own(), c.capture.KeepBridgeNetfilter
	if c.clientConnections < 0 {
		errs = append(errs, fmt.Errorf("--client-connections %d: must not be negative; 0 is a quarter of what Envoy takes", c.clientConnections))
	}
	// That it is empty is the node's to refuse; what the host is called, nobody typed.
	if msgs := validation.IsDNS1123Subdomain(n.Node); n.Node != "" && n.Node != hostName() && len(msgs) > 0 {
		errs = append(errs, fmt.Errorf("--node-name %q is no name of a Node; give one of kubectl get nodes", n.Node))
	}
	if c.capture.Kernel != nil {
		n.NodePortAddresses = c.capture.Kernel.NodePortAddresses
	}
	errs = append(errs, c.tracking.Validate(), run.CheckTCP("healthz-bind-address", n.HealthzAddress), run.CheckTCP("metrics-bind-address", n.MetricsAddress), n.Validate())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: %w", run.ErrUsage, err)
	}
	return nil
}

// readWords reads the flags that are words, marks and ranges.
func (c *config) readWords() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	var err error
	if c.capture.Mark, c.capture.Mask, err = plan.ParseMark(c.mark); err != nil {
		fail("--mark: %w", err)
	}
	c.capture.PodCIDRs = parseCIDRs("--pod-cidr", c.podCIDRs, &errs)
	c.capture.ServiceCIDRs = parseCIDRs("--service-cidr", c.serviceCIDRs, &errs)
	errs = append(errs, c.readDatapath())
	switch c.bridgeNF {
	case "clear", "keep":
		c.capture.KeepBridgeNetfilter = c.bridgeNF == "keep"
	default:
		fail("--bridge-netfilter %q is not known; use clear or keep", c.bridgeNF)
	}
	for flag, who := range map[string]string{"take-over": c.takeOver, "hand-over": c.handOver} {
		if who != "" && who != kubeProxy {
			fail("--%s %q is not known; use kube-proxy, or leave it out", flag, who)
		}
	}
	c.node.TakeOver = c.takeOver != ""
	switch c.policies {
	case "warn", "refuse":
		c.node.RefusePolicies = c.policies == "refuse"
	default:
		fail("--network-policies %q is not known; use warn or refuse", c.policies)
	}
	if c.node.Topology.Reading, err = topology.ParseReading(c.keysReading); err != nil {
		fail("--topology-keys %w", err)
	}
	return errors.Join(errs...)
}

// readDatapath reads which path connections take. That of envoy has none in the
// kernel: a Service that asks for one gets none.
func (c *config) readDatapath() error {
	path, err := topology.ParseDatapath(c.datapath)
	if err != nil {
		return fmt.Errorf("--datapath %w", err)
	}
	byDefault := len(c.nodePorts) == 0 || len(c.nodePorts) == 1 && strings.TrimSpace(c.nodePorts[0]) == primary
	if path == topology.DatapathEnvoy {
		if !byDefault {
			return errors.New("--nodeport-addresses: node ports are served with --datapath auto or kernel alone; give one of these, or leave it out")
		}
		c.node.Datapath, c.capture.Kernel = topology.DatapathNone, nil
		return nil
	}
	var errs []error
	kernel := &plan.Kernel{}
	if !byDefault {
		kernel.NodePortAddresses = parseCIDRs("--nodeport-addresses", c.nodePorts, &errs)
	}
	c.node.Datapath, c.capture.Kernel = path, kernel
	return errors.Join(errs...)
}

func parseCIDRs(flag string, texts []string, errs *[]error) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			*errs = append(*errs, fmt.Errorf("%s: %q is no CIDR such as 10.244.7.0/24", flag, text))
			continue
		}
		if p != p.Masked() {
			*errs = append(*errs, fmt.Errorf("%s %s has bits beyond its length; did you mean %s?", flag, p, p.Masked()))
		}
		list = append(list, p)
	}
	return list
}

func (c *config) host() capture.Host {
	return capture.Host{StateDir: c.node.StateDir, ProcSys: c.procSys, Tracking: c.tracking}
}

func (c *config) cleanup() cleanup.Config {
	n := &c.node
	return cleanup.Config{
		Capture: c.capture, Host: c.host(), Files: c.files,
		XDSSocket: n.XDSSocket, StatusSocket: n.StatusSocket, FeedSocket: n.FeedSocket, AdminSocket: c.adminSocket,
	}
}
