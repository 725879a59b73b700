package cluster

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

// DNSService is the address of the cluster's DNS, in deploy/ and elsewhere.
const DNSService = "10.96.0.10"

// corefile is the cluster's DNS: CoreDNS' own plugin for Kubernetes, as kubeadm has
// it. It answers what gridmesh leaves to others, as headless Services of no grid.
const corefile = `.:53 {
    bind %s
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        kubeconfig %s
        pods insecure
        ttl 5
    }
}
`

const dnsService = `
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

// StartDNS starts the cluster's DNS in the cloud, beside the API server, and
// makes its Service.
func (c *Cluster) StartDNS() (*edge.Process, error) {
	path := filepath.Join(c.dir, "Corefile")
	if err := os.WriteFile(path, fmt.Appendf(nil, corefile, netlab.CloudIP, c.Kubeconfig), 0o600); err != nil {
		return nil, err
	}
	p, err := edge.Start(c.Lab.Cloud, "the cluster's dns", edge.Binary("gridmesh-dns"), "-conf", path)
	if err != nil {
		return nil, err
	}
	return p, c.Apply(fmt.Sprintf(dnsService, DNSService, netlab.CloudIP))
}
