package cluster

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gridmesh/gridmesh/test/cluster/edge"
)

// KubeProxyImage runs a real node's own kube-proxy: a container of it needs the
// machine's file system at /host, the network of the node, and all rights.
const KubeProxyImage = "gridmesh.test/kube-proxy:1"

// KubeProxyMode is a mode of kube-proxy, in its own words.
type KubeProxyMode string

// The modes that this kernel has.
const (
	NftablesMode KubeProxyMode = "nftables"
	IptablesMode KubeProxyMode = "iptables"
)

// StartKubeProxy starts kube-proxy in a mode.
func (n *Node) StartKubeProxy(mode KubeProxyMode) error {
	if err := edge.MissingForKubeProxy(); err != nil {
		return err
	}
	path, err := n.kubeProxyConfig(mode)
	if err != nil {
		return err
	}
	n.KubeProxy, err = edge.Start(n.NS, "kube-proxy "+n.Name, edge.Binary("kube"), "kube-proxy", "--config", path)
	return err
}

// KubeProxyConfig writes the configuration of the node's kube-proxy, which has
// the same path inside a real node.
func (n *Node) KubeProxyConfig() (path string, err error) { return n.kubeProxyConfig(NftablesMode) }

func (n *Node) kubeProxyConfig(mode KubeProxyMode) (path string, err error) {
	kubeconfig, err := n.c.pki.kubeconfig("kube-proxy", "system:kube-proxy", "", server())
	if err != nil {
		return "", err
	}
	path = filepath.Join(n.Dir, "kube-proxy.yaml")
	text := fmt.Sprintf(`apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: %s
clientConnection: {kubeconfig: %q}
conntrack: {maxPerCore: 0}
hostnameOverride: %s
`, mode, kubeconfig, n.Name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}
