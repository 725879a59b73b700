package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/miekg/dns"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
	"github.com/gridmesh/gridmesh/test/cluster/sandbox"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// clusterDNS is the address that deploy/ and every cluster give the Service.
const clusterDNS = "10.96.0.10"

// clusterCorefile is the cluster's DNS: CoreDNS' own plugin for Kubernetes.
const clusterCorefile = `.:53 {
    bind %s
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        kubeconfig %s
        pods insecure
        ttl 5
    }
}
`

// nodeCorefile is what a node without gridmesh has: the same address for pods,
// and everything from the cluster's DNS, through the proxy.
const nodeCorefile = `.:53 {
    nodelocal %s
    errors
    forward . %s
}
`

// The Service of the cluster's DNS, whose server runs beside the API server.
const clusterService = `
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system, labels: {k8s-app: kube-dns}}
spec:
  clusterIP: %s
  ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: kube-dns-cloud, namespace: kube-system, labels: {kubernetes.io/service-name: kube-dns}}
addressType: IPv4
endpoints: [{addresses: [%s], conditions: {ready: true}}]
ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]
`

// startClusterDNS starts the DNS of the cluster, which is the same with every
// proxy, and its Service.
func startClusterDNS(c *cluster.Cluster) error {
	if err := startDNS(c.Lab.Cloud, sandbox.Dir, fmt.Sprintf(clusterCorefile, netlab.CloudIP, c.Kubeconfig)); err != nil {
		return err
	}
	return c.Apply(fmt.Sprintf(clusterService, clusterDNS, netlab.CloudIP))
}

// startNodeDNS starts what answers pods where no DNS of gridmesh runs.
func startNodeDNS(c *cluster.Cluster) error {
	for _, n := range c.Nodes {
		if err := startDNS(n.NS, n.Dir, fmt.Sprintf(nodeCorefile, edge.NodeDNS[0], clusterDNS)); err != nil {
			return err
		}
	}
	return nil
}

// startDNS starts a CoreDNS that has all plugins that are needed here.
func startDNS(ns *netlab.NS, dir, corefile string) error {
	path := filepath.Join(dir, "Corefile")
	if err := os.WriteFile(path, []byte(corefile), 0o600); err != nil {
		return err
	}
	_, err := edge.Start(ns, "dns "+ns.Name, edge.Binary("gridmesh-dns"), "-conf", path)
	return err
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
