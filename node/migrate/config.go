package migrate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Proxy is what kube-proxy was told, by its file, or its flags where it has none.
type Proxy struct {
	Mode               string    `json:"mode,omitempty"` // "" is its default for the platform, iptables
	ClusterCIDR        string    `json:"clusterCIDR,omitempty"`
	DetectLocalMode    string    `json:"detectLocalMode,omitempty"` // "" is ClusterCIDR
	DetectLocal        Local     `json:"detectLocal,omitzero"`
	NodePortAddresses  []string  `json:"nodePortAddresses,omitempty"`
	HealthzBindAddress *string   `json:"healthzBindAddress,omitempty"`
	MetricsBindAddress *string   `json:"metricsBindAddress,omitempty"`
	Conntrack          Conntrack `json:"conntrack,omitzero"`
	Iptables           Tables    `json:"iptables,omitzero"`
	Nftables           Tables    `json:"nftables,omitzero"`
	IPVS               Scheduler `json:"ipvs,omitzero"`
}

// Local is how pods of this node are told where the mode is not of their addresses.
type Local struct {
	BridgeInterface     string `json:"bridgeInterface,omitempty"`
	InterfaceNamePrefix string `json:"interfaceNamePrefix,omitempty"`
}

// Conntrack are the bounds of the kernel's table of connections.
type Conntrack struct {
	MaxPerCore            *int32           `json:"maxPerCore,omitempty"`
	Min                   *int32           `json:"min,omitempty"`
	TCPEstablishedTimeout *metav1.Duration `json:"tcpEstablishedTimeout,omitempty"`
	TCPCloseWaitTimeout   *metav1.Duration `json:"tcpCloseWaitTimeout,omitempty"`
	TCPBeLiberal          bool             `json:"tcpBeLiberal,omitempty"`
	UDPTimeout            metav1.Duration  `json:"udpTimeout,omitzero"`
	UDPStreamTimeout      metav1.Duration  `json:"udpStreamTimeout,omitzero"`
}

// Tables is what the modes iptables and nftables have.
type Tables struct {
	MasqueradeAll      bool  `json:"masqueradeAll,omitempty"`
	LocalhostNodePorts *bool `json:"localhostNodePorts,omitempty"`
}

// Scheduler is what the mode ipvs has.
type Scheduler struct {
	Scheduler string `json:"scheduler,omitempty"`
}

// ParseProxy reads kube-proxy's file; nil for none. Fields of other versions, and those
// that matter to no other proxy, are passed over.
func ParseProxy(file []byte) (*Proxy, error) {
	p := &Proxy{}
	if len(file) == 0 {
		return p, nil
	}
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(file, &kind); err != nil {
		return nil, fmt.Errorf("read kube-proxy's configuration: %w", err)
	}
	if kind.Kind != "KubeProxyConfiguration" {
		return nil, fmt.Errorf("read kube-proxy's configuration: its kind is %q, want KubeProxyConfiguration", kind.Kind)
	}
	if err := yaml.Unmarshal(file, p); err != nil {
		return nil, fmt.Errorf("read kube-proxy's configuration: %w", err)
	}
	return p, nil
}

// flag is the value of a flag among arguments; false where it is not given.
func flag(args []string, name string) (value string, given bool) {
	for i, arg := range args {
		arg, dashed := strings.CutPrefix(strings.Replace(arg, "--", "-", 1), "-")
		switch text, has := strings.CutPrefix(arg, name+"="); {
		case dashed && has:
			value, given = text, true
		case dashed && arg == name && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-"):
			value, given = args[i+1], true
		case dashed && arg == name:
			value, given = "true", true
		}
	}
	return value, given
}

// ofFlags is what kube-proxy is told where it has no file: beside one it passes these over.
func ofFlags(args []string) *Proxy {
	p := &Proxy{}
	text := func(name string, to *string) {
		if value, given := flag(args, name); given {
			*to = value
		}
	}
	text("proxy-mode", &p.Mode)
	text("cluster-cidr", &p.ClusterCIDR)
	text("detect-local-mode", &p.DetectLocalMode)
	text("pod-bridge-interface", &p.DetectLocal.BridgeInterface)
	text("pod-interface-name-prefix", &p.DetectLocal.InterfaceNamePrefix)
	text("ipvs-scheduler", &p.IPVS.Scheduler)
	for name, to := range map[string]**string{"healthz-bind-address": &p.HealthzBindAddress, "metrics-bind-address": &p.MetricsBindAddress} {
		if value, given := flag(args, name); given {
			*to = &value
		}
	}
	if value, given := flag(args, "nodeport-addresses"); given {
		p.NodePortAddresses = slices.DeleteFunc(strings.Split(value, ","), func(s string) bool { return s == "" })
	}
	is := func(name string, take func(bool)) {
		if value, given := flag(args, name); given {
			if yes, err := strconv.ParseBool(value); err == nil {
				take(yes)
			}
		}
	}
	is("masquerade-all", func(yes bool) { p.Iptables.MasqueradeAll, p.Nftables.MasqueradeAll = yes, yes })
	is("iptables-localhost-nodeports", func(yes bool) { p.Iptables.LocalhostNodePorts = &yes })
	is("conntrack-tcp-be-liberal", func(yes bool) { p.Conntrack.TCPBeLiberal = yes })
	p.Conntrack.takeFlags(args)
	return p
}

func (c *Conntrack) takeFlags(args []string) {
	for name, to := range map[string]**int32{"conntrack-max-per-core": &c.MaxPerCore, "conntrack-min": &c.Min} {
		var n int32
		if value, given := flag(args, name); given {
			if _, err := fmt.Sscan(value, &n); err == nil {
				*to = &n
			}
		}
	}
	duration := func(name string, take func(metav1.Duration)) {
		if value, given := flag(args, name); given {
			if d, err := time.ParseDuration(value); err == nil {
				take(metav1.Duration{Duration: d})
			}
		}
	}
	duration("conntrack-tcp-timeout-established", func(d metav1.Duration) { c.TCPEstablishedTimeout = &d })
	duration("conntrack-tcp-timeout-close-wait", func(d metav1.Duration) { c.TCPCloseWaitTimeout = &d })
	duration("conntrack-udp-timeout", func(d metav1.Duration) { c.UDPTimeout = d })
	duration("conntrack-udp-timeout-stream", func(d metav1.Duration) { c.UDPStreamTimeout = d })
}
