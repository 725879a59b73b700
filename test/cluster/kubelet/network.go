package kubelet

import (
	"net/netip"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/gridmesh/gridmesh/test/cluster/netlab"
)

// network gives pods their namespaces and addresses.
type network struct {
	mu   sync.Mutex
	node *netlab.Node
	host *netlab.NS
}

func newNetwork(cfg *Config) (*network, error) {
	ns, err := netlab.OpenNS(cfg.Node)
	if err != nil {
		return nil, err
	}
	node := &netlab.Node{Name: cfg.Node, NS: ns, Network: netlab.Routed}
	if cfg.Bridged {
		node.Network = netlab.Bridged
	}
	for _, text := range cfg.PodCIDRs {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		if p.Addr().Is6() {
			node.PodCIDR6 = p
		} else {
			node.PodCIDR = p
		}
	}
	return &network{node: node, host: ns}, nodeLeftovers(node)
}

// nodeLeftovers removes what a killed predecessor left of its pods' links.
func nodeLeftovers(n *netlab.Node) error { return n.RemoveStalePods() }

func (n *network) add(pod *corev1.Pod) (*netlab.Pod, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.node.AddPod("pod-" + string(pod.UID))
}

func (n *network) remove(p *netlab.Pod) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return p.Remove()
}
