package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds/render"
)

// config is every choice that the flags offer.
type config struct {
	kubeconfig    string
	manifests     string
	node          string
	stateDir      string
	xdsSocket     string
	statusSocket  string
	adminSocket   string
	feedSocket    string
	procSys       string
	output        string
	healthz       string
	metrics       string
	mark          string
	datapath      string
	bridgeNF      string
	keysReading   string
	podCIDRs      []string
	serviceCIDRs  []string
	preloadMax    int
	envoyHeapMiB  uint64
	allowBypass   bool
	closeOnMove   bool
	hostsFile     string
	clusterDomain string
	verbose       bool

	capture plan.Config
	render  render.Config
	opts    topology.Options
}

func defaults() *config {
	return &config{
		stateDir: "/var/lib/gridmesh", xdsSocket: "/run/gridmesh/xds.sock", statusSocket: "/run/gridmesh/agent.sock",
		adminSocket: "/run/gridmesh/envoy-admin.sock", feedSocket: "/run/gridmesh/feed.sock", healthz: "0.0.0.0:10256", metrics: "127.0.0.1:10249",
		mark: "0x1/0x3", datapath: "envoy", bridgeNF: "clear", keysReading: "ordered", preloadMax: 500,
		capture: plan.Default(), render: render.Default(),
	}
}

func (c *config) bind(f *pflag.FlagSet) {
	host, _ := os.Hostname()
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig of the API server, at its real address and not at a ClusterIP (default: in-cluster credentials)")
	f.StringVar(&c.manifests, "manifests", "", "read Services, EndpointSlices and Nodes from this directory instead of an API server")
	f.StringVar(&c.node, "node-name", strings.ToLower(host), "name of this node")
	f.StringVar(&c.stateDir, "state-dir", c.stateDir, "directory of the last good state, the lock and saved sysctls")
	f.StringVar(&c.xdsSocket, "xds-socket", c.xdsSocket, "Unix socket that Envoy connects to")
	f.StringVar(&c.statusSocket, "status-socket", c.statusSocket, "Unix socket for status")
	f.StringVar(&c.adminSocket, "admin-socket", c.adminSocket, "Unix socket of Envoy's admin interface, for bootstrap")
	f.StringVar(&c.feedSocket, "feed-socket", c.feedSocket, "Unix socket that feeds other processes of this node")
	f.StringVar(&c.procSys, "proc-sys", "/proc/sys", "where /proc/sys can be written to")
	f.StringVar(&c.healthz, "healthz-bind-address", c.healthz, "address of /healthz and /livez; empty for none")
	f.StringVar(&c.metrics, "metrics-bind-address", c.metrics, "address of /metrics; empty for none")
	f.StringSliceVar(&c.podCIDRs, "pod-cidr", nil, "pod CIDRs of this node (default: the Node's podCIDRs; without any, sources are not kept)")
	f.StringSliceVar(&c.serviceCIDRs, "service-cidr", nil, "ranges of ClusterIPs to guard, besides the cluster's ServiceCIDR objects")
	f.StringVar(&c.mark, "mark", c.mark, "BITS/MASK of captured packets; the rest of MASK marks Envoy's own")
	f.IntVar(&c.capture.Table, "route-table", c.capture.Table, "number of the route table")
	f.Uint16Var(&c.capture.Ports.Base, "listen-port-base", c.capture.Ports.Base, "first loopback port of the capture listeners")
	f.DurationVar(&c.render.ConnectTimeout, "connect-timeout", c.render.ConnectTimeout, "how long Envoy waits for an endpoint of the unit before it tries the next")
	f.IntVar(&c.preloadMax, "preload-max", c.preloadMax, "most clusters that Envoy holds without being asked")
	f.Uint64Var(&c.envoyHeapMiB, "envoy-heap-limit", 0, "MiB of heap at which Envoy stops to accept connections, for bootstrap; 0 for no limit")
	f.StringVar(&c.keysReading, "topology-keys", c.keysReading, "reading of several topologyKeys: ordered, or union as SuperEdge's")
	f.StringVar(&c.datapath, "datapath", c.datapath, "envoy; kernel is not built yet")
	f.StringVar(&c.bridgeNF, "bridge-netfilter", c.bridgeNF, "bridge-nf-call-iptables where pods hang on a bridge: clear sets it to 0, keep leaves it and redirects instead")
	f.BoolVar(&c.closeOnMove, "close-on-move", false, "close open TCP connections to endpoints that a Service's topologyKeys no longer allow, after a node or a Service changed")
	f.StringVar(&c.hostsFile, "hosts-file", "", "keep the names {set}-{i} of StatefulSetGrids of this unit in this hosts file, for a DNS server of your own")
	f.StringVar(&c.clusterDomain, "cluster-domain", "cluster.local", "zone of the names in --hosts-file")
	f.BoolVar(&c.allowBypass, "allow-policy-bypass", false, "start although NetworkPolicies are in use and would be bypassed on the same node (docs/limits.md)")
	f.BoolVarP(&c.verbose, "verbose", "v", false, "log more")
}

// complete checks the flags and fills what depends on several of them.
func (c *config) complete(running bool) error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	var err error
	if c.capture.Mark, c.capture.Mask, err = plan.ParseMark(c.mark); err != nil {
		fail("--mark: %w", err)
	}
	c.capture.PodCIDRs = parseCIDRs("--pod-cidr", c.podCIDRs, &errs)
	c.capture.ServiceCIDRs = parseCIDRs("--service-cidr", c.serviceCIDRs, &errs)
	if err := c.capture.Validate(); err != nil && len(errs) == 0 {
		errs = append(errs, err)
	}
	if c.render.ConnectTimeout < 10*time.Millisecond || c.render.ConnectTimeout > time.Minute {
		fail("--connect-timeout %s: must be between 10ms and 1m", c.render.ConnectTimeout)
	}
	if c.hostsFile != "" && !filepath.IsAbs(c.hostsFile) {
		fail("--hosts-file %q: give an absolute path", c.hostsFile)
	}
	if len(validation.IsDNS1123Subdomain(c.clusterDomain)) > 0 {
		fail("--cluster-domain %q: is no domain, such as cluster.local", c.clusterDomain)
	}
	if c.preloadMax < 0 {
		fail("--preload-max %d: must not be negative", c.preloadMax)
	}
	switch c.datapath {
	case "envoy":
	case "kernel":
		fail("--datapath kernel is not built yet; leave the flag out")
	default:
		fail("--datapath %q is not known; the only one is envoy", c.datapath)
	}
	switch c.bridgeNF {
	case "clear", "keep":
		c.capture.KeepBridgeNetfilter = c.bridgeNF == "keep"
	default:
		fail("--bridge-netfilter %q is not known; use clear or keep", c.bridgeNF)
	}
	if c.opts.Reading, err = topology.ParseReading(c.keysReading); err != nil {
		fail("--topology-keys %w", err)
	}
	if c.node == "" {
		fail("--node-name is empty; give the name of the Node object")
	}
	if running && c.kubeconfig != "" && c.manifests != "" {
		fail("--kubeconfig and --manifests exclude each other")
	}
	for flag, path := range map[string]*string{"--state-dir": &c.stateDir, "--xds-socket": &c.xdsSocket, "--status-socket": &c.statusSocket, "--admin-socket": &c.adminSocket, "--feed-socket": &c.feedSocket} {
		abs, err := filepath.Abs(*path)
		if err != nil || *path == "" {
			fail("%s %q is no path", flag, *path)
		}
		*path = abs
		const sunPath = 107 // bytes of a Unix socket's path
		if strings.HasSuffix(flag, "socket") && len(abs) > sunPath {
			fail("%s: %s is longer than %d bytes, the kernel's limit", flag, abs, sunPath)
		}
	}
	c.render.Ports, c.render.Mark, c.render.Redirect = c.capture.Ports, c.capture.Own(), c.capture.KeepBridgeNetfilter
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: %w", run.ErrUsage, err)
	}
	return nil
}

func parseCIDRs(flag string, texts []string, errs *[]error) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			*errs = append(*errs, fmt.Errorf("%s: %q is no CIDR such as 10.244.7.0/24", flag, text))
			continue
		}
		list = append(list, p)
	}
	return list
}

func (c *config) host() capture.Host {
	return capture.Host{StateDir: c.stateDir, ProcSys: c.procSys}
}
