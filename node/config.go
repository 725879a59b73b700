package node

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds/render"
)

// Config is what the operator chose for one node.
type Config struct {
	// Node is the name of the Node object.
	Node string
	// StateDir holds the lock and the last good state.
	StateDir string
	// DeadNodesFile is where gridmesh-health of this node tells whom the vote of the unit calls
	// dead; empty for nowhere. It is heard while the API server is away.
	DeadNodesFile string
	// The Unix sockets: of xDS for Envoy, of the status, and of the snapshots
	// for other processes of the node.
	XDSSocket, StatusSocket, FeedSocket string
	// TCP addresses of /healthz and of /metrics; empty for none.
	HealthzAddress, MetricsAddress string
	// ProxyMode is what /proxyMode answers.
	ProxyMode string

	// PodCIDRs are this node's. Empty: those of the last good state or of the
	// Node object, where there is an API server.
	PodCIDRs []netip.Prefix
	// ServiceCIDRs are guarded from the start, besides those of the last good
	// state and of the cluster.
	ServiceCIDRs []netip.Prefix
	// NodePortAddresses are the ranges of this node's addresses at which load balancers are
	// answered, where there is a kernel path. Empty: all of them.
	NodePortAddresses []netip.Prefix
	// Topology chooses between readings of topologyKeys.
	Topology topology.Options
	// Datapath is which path connections take. DatapathNone: there is no kernel
	// path, Envoy serves TCP and UDP of ClusterIPs, and nobody the rest. With
	// another the Capture has one, and Parts.EnvoyServes says whether it is needed.
	Datapath topology.Datapath
	// Render is how Envoy's resources look.
	Render render.Config
	// PreloadMax bounds the clusters that Envoy holds without being asked.
	PreloadMax int
	// RefusePolicies keeps the agent from starting where NetworkPolicies would
	// be bypassed and nothing was served before. An agent that runs goes on.
	RefusePolicies bool
	// TakeOver has the agent start beside kube-proxy's rules, come before them, and remove
	// what is left of them. It needs a kernel path.
	TakeOver bool
	// CloseOnMove closes connections to endpoints that a move put out of reach.
	CloseOnMove bool
	// HostsFile is kept for a DNS server of the operator's own; empty for none.
	HostsFile string
	// ClusterDomain is the zone of the names in HostsFile.
	ClusterDomain string
}

// Default is a node's usual configuration, without its name.
func Default() Config {
	return Config{
		StateDir: "/var/lib/gridmesh", XDSSocket: "/run/gridmesh/xds.sock", StatusSocket: "/run/gridmesh/agent.sock",
		FeedSocket: "/run/gridmesh/feed.sock", DeadNodesFile: "/run/gridmesh/health/dead", HealthzAddress: "0.0.0.0:10256", MetricsAddress: "127.0.0.1:10249",
		ProxyMode: "envoy", Render: render.Default(), PreloadMax: 500, ClusterDomain: "cluster.local",
	}
}

// Bounds of the time that an endpoint may take to accept a connection.
const minConnectTimeout, maxConnectTimeout = 10 * time.Millisecond, time.Minute

// Validate names every flag that is wrong.
func (c Config) Validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if t := c.Render.ConnectTimeout; t < minConnectTimeout || t > maxConnectTimeout {
		fail("--connect-timeout %s: must be between 10ms and 1m", t)
	}
	if c.HostsFile != "" && !filepath.IsAbs(c.HostsFile) {
		fail("--hosts-file %q: give an absolute path", c.HostsFile)
	}
	if len(validation.IsDNS1123Subdomain(c.ClusterDomain)) > 0 {
		fail("--cluster-domain %q: is no domain, such as cluster.local", c.ClusterDomain)
	}
	if c.PreloadMax < 0 {
		fail("--preload-max %d: must not be negative", c.PreloadMax)
	}
	if c.TakeOver && c.Datapath == topology.DatapathNone {
		fail("--take-over=kube-proxy: give no --datapath, or auto or kernel; with envoy nobody would serve node ports, load balancers' addresses and UDP once kube-proxy is gone, nor could Envoy be handed anything before")
	}
	if c.Node == "" {
		fail("--node-name is empty; give the name of the Node object")
	}
	for _, p := range []struct{ flag, path string }{
		{"--state-dir", c.StateDir}, {"--xds-socket", c.XDSSocket}, {"--status-socket", c.StatusSocket}, {"--feed-socket", c.FeedSocket},
	} {
		if p.path == "" {
			fail("%s %q is no path", p.flag, p.path)
		}
	}
	return errors.Join(errs...)
}

func (c Config) statePath() string { return filepath.Join(c.StateDir, source.StateFile) }
