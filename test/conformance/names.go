package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/miekg/dns"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// nodeCorefile is what a node without gridmesh has: the same address for pods,
// and everything from the cluster's DNS, through the proxy.
const nodeCorefile = `.:53 {
    nodelocal %s
    errors
    forward . %s
}
`

// startNodeDNS starts what answers pods where no DNS of gridmesh runs: a CoreDNS that
// has all plugins that are needed here.
func startNodeDNS(c *cluster.Cluster) error {
	for _, n := range c.Nodes {
		path := filepath.Join(n.Dir, "Corefile")
		if err := os.WriteFile(path, fmt.Appendf(nil, nodeCorefile, edge.NodeDNS[0], cluster.DNSService), 0o600); err != nil {
			return err
		}
		if _, err := edge.Start(n.NS, "dns "+n.Name, edge.Binary("gridmesh-dns"), "-conf", path); err != nil {
			return err
		}
	}
	return nil
}

// waitNames waits until every node resolves a Service, and a name that only the
// cluster's DNS knows: that one comes through the proxy.
func waitNames(ctx context.Context, c *cluster.Cluster) error {
	for _, n := range c.Nodes {
		for _, name := range []string{"kubernetes.default.svc.cluster.local.", "10-1-2-3.default.pod.cluster.local."} {
			if _, err := wait.For(ctx, n.Name+" to resolve "+name, func() error {
				_, err := edge.Resolve(n.NS, edge.NodeDNS[0]+":53", name, dns.TypeA)
				return err
			}); err != nil {
				return err
			}
		}
	}
	return nil
}
