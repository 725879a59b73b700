package realnode

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Config of one machine.
type Config struct {
	Node       string   `json:"node"`
	Dir        string   `json:"dir"`        // its disk, below the sandbox's directory
	Kube       string   `json:"kube"`       // the program with the kubelet in it
	Kubeconfig string   `json:"kubeconfig"` // the kubelet's
	ClientCA   string   `json:"clientCA"`   // who may call the kubelet
	Cert       string   `json:"cert"`       // the kubelet's, as a server
	Key        string   `json:"key"`
	IPs        []string `json:"ips"`
	PodCIDRs   []string `json:"podCIDRs"`
	ClusterDNS []string `json:"clusterDNS"`
	Domain     string   `json:"domain"`
	Nameserver string   `json:"nameserver"` // of the machine itself
	Images     []string `json:"images"`     // archives: of "make images", or of WriteArchive
	Cgroup     string   `json:"cgroup"`     // its group: see package cgroup
}

// ReadConfig reads a machine's configuration.
func ReadConfig(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var c Config
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return &c, nil
}

// Write writes the configuration into the machine's directory and returns its path.
func (c *Config) Write() (string, error) {
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return "", err
	}
	path := filepath.Join(c.Dir, "machine.json")
	return path, os.WriteFile(path, data, 0o600)
}

const containerdSocket = "/run/containerd/containerd.sock"

// files are the configurations of the machine's programs, below Dir.
func (c *Config) files() (map[string]string, error) {
	network, err := c.network()
	return map[string]string{
		"containerd.toml":     c.containerd(),
		"kubelet.yaml":        c.kubelet(),
		"cni/10-lab.conflist": network,
		"resolv.conf":         "nameserver " + c.Nameserver + "\n",
	}, err
}

// containerd: without CAP_SYS_RESOURCE, which a machine in a machine may lack,
// no score may be lowered. Its plugin "opt" would write to this machine's /opt.
func (c *Config) containerd() string {
	return fmt.Sprintf(`version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
  address = %q
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = %q
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = %q
`, containerdSocket, PauseImage, pluginDir, filepath.Join(c.Dir, "cni"))
}

// network is the bridge plugin with a range for each pod CIDR.
func (c *Config) network() (string, error) {
	type entry = map[string]any
	var ranges [][]entry
	var routes []entry
	for _, cidr := range c.PodCIDRs {
		ranges = append(ranges, []entry{{"subnet": cidr}})
		everywhere := "0.0.0.0/0"
		if strings.Contains(cidr, ":") {
			everywhere = "::/0"
		}
		routes = append(routes, entry{"dst": everywhere})
	}
	data, err := json.MarshalIndent(entry{
		"cniVersion": "0.4.0", "name": "lab",
		"plugins": []entry{{
			"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
			"ipam": entry{"type": "host-local", "ranges": ranges, "routes": routes},
		}},
	}, "", "  ")
	return string(data), err
}

// kubelet: reports as often as a test can wait for, and leaves images alone
// however full this machine's disk is.
func (c *Config) kubelet() string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /%s
enforceNodeAllocatable: []
containerRuntimeEndpoint: unix://%s
authentication: {x509: {clientCAFile: %q}, webhook: {enabled: true}, anonymous: {enabled: false}}
authorization: {mode: Webhook}
tlsCertFile: %q
tlsPrivateKeyFile: %q
clusterDomain: %s
clusterDNS: [%s]
resolvConf: %q
evictionHard: {nodefs.available: "0%%", imagefs.available: "0%%", memory.available: "10Mi"}
imageGCHighThresholdPercent: 100
localStorageCapacityIsolation: false
failSwapOn: false
nodeStatusUpdateFrequency: 5s
nodeLeaseDurationSeconds: 12
volumePluginDir: /var/lib/kubelet/volumeplugins
`, c.Cgroup, containerdSocket, c.ClientCA, c.Cert, c.Key, c.Domain, quoted(c.ClusterDNS),
		filepath.Join(c.Dir, "resolv.conf"))
}

func quoted(list []string) string {
	var out []string
	for _, s := range list {
		out = append(out, fmt.Sprintf("%q", s))
	}
	return strings.Join(out, ", ")
}
