package migrate

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gridmesh/gridmesh/capture/kubeproxy"
)

// differences are what kube-proxy was told and gridmesh is not, or does otherwise. What
// both do alike is left out.
func differences(p *Proxy) (list []Difference) {
	if p == nil {
		return nil
	}
	add := func(what, gridmesh string, args ...any) {
		list = append(list, Difference{what, fmt.Sprintf(gridmesh, args...)})
	}
	switch {
	case len(p.NodePortAddresses) == 0 && p.mode() != "nftables":
		add("nodePortAddresses: all of the node's", "at the Node's InternalIPs; give --nodeport-addresses the ranges of others that clients use")
	case len(p.NodePortAddresses) == 0, slices.Equal(p.NodePortAddresses, []string{"primary"}): // as here
	default:
		add("nodePortAddresses: "+strings.Join(p.NodePortAddresses, ","), "--nodeport-addresses=%s", strings.Join(p.NodePortAddresses, ","))
	}
	if p.mode() == "iptables" && (p.Iptables.LocalhostNodePorts == nil || *p.Iptables.LocalhostNodePorts) {
		add("iptables.localhostNodePorts: true", "node ports are not served at 127.0.0.1: dial the node's address")
	}
	if p.Iptables.MasqueradeAll || p.Nftables.MasqueradeAll {
		add("masqueradeAll: true", "pods of this node keep their address towards ClusterIPs")
	}
	const byPodCIDRs = "pods are told by the podCIDRs of their Node, or --pod-cidr: other sources come with the node's address"
	switch mode := p.DetectLocalMode; mode {
	case "NodeCIDR": // as here
	case "", "ClusterCIDR":
		if p.ClusterCIDR != "" {
			add("clusterCIDR: "+p.ClusterCIDR, byPodCIDRs)
		}
	default:
		add(strings.TrimSpace("detectLocalMode: "+mode+" "+p.DetectLocal.BridgeInterface+p.DetectLocal.InterfaceNamePrefix), byPodCIDRs)
	}
	if p.IPVS.Scheduler != "" {
		add("ipvs.scheduler: "+p.IPVS.Scheduler, "one of the endpoints at random, and by Envoy in turn")
	}
	address := func(name, flag string, given *string, ownHost string, ownPort int) {
		if given == nil || *given == "" {
			return
		}
		host, port, err := net.SplitHostPort(*given)
		if err == nil && port == strconv.Itoa(ownPort) && (host == "" || host == ownHost) {
			return
		}
		add(name+": "+*given, "%s=%s", flag, *given)
	}
	address("healthzBindAddress", "--healthz-bind-address", p.HealthzBindAddress, "0.0.0.0", kubeproxy.HealthPort)
	address("metricsBindAddress", "--metrics-bind-address", p.MetricsBindAddress, "127.0.0.1", kubeproxy.MetricsPort)
	return append(list, p.Conntrack.differences()...)
}

// mode is how it serves: iptables where nobody chose.
func (p *Proxy) mode() string {
	if p.Mode == "" {
		return "iptables"
	}
	return p.Mode
}

// differences are flags of the agent, which has kube-proxy's own defaults.
func (c *Conntrack) differences() (list []Difference) {
	add := func(name, flag string, value any) {
		list = append(list, Difference{fmt.Sprintf("conntrack.%s: %v", name, value), fmt.Sprintf("--conntrack-%s=%v", flag, value)})
	}
	const perCore, least = 32768, 131072
	if c.MaxPerCore != nil && *c.MaxPerCore != perCore {
		add("maxPerCore", "max-per-core", *c.MaxPerCore)
	}
	if c.Min != nil && *c.Min != least {
		add("min", "min", *c.Min)
	}
	duration := func(name, flag, usual string, d *metav1.Duration) {
		if d != nil && d.Duration.String() != usual {
			add(name, flag, d.Duration)
		}
	}
	duration("tcpEstablishedTimeout", "tcp-timeout-established", "24h0m0s", c.TCPEstablishedTimeout)
	duration("tcpCloseWaitTimeout", "tcp-timeout-close-wait", "1h0m0s", c.TCPCloseWaitTimeout)
	duration("udpTimeout", "udp-timeout", "0s", &c.UDPTimeout)
	duration("udpStreamTimeout", "udp-timeout-stream", "0s", &c.UDPStreamTimeout)
	if c.TCPBeLiberal {
		add("tcpBeLiberal", "tcp-be-liberal", true)
	}
	return list
}
