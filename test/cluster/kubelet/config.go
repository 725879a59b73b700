package kubelet

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Config of one node.
type Config struct {
	Node       string            `json:"node"`
	Kubeconfig string            `json:"kubeconfig"`
	Dir        string            `json:"dir"` // state, logs, volumes; hostPath is rooted in Dir/host
	IPs        []string          `json:"ips"`
	PodCIDRs   []string          `json:"podCIDRs"`
	Bridged    bool              `json:"bridged"`
	Labels     map[string]string `json:"labels"`
	Images     map[string]Image  `json:"images"`
	ClusterDNS []string          `json:"clusterDNS"`
	Domain     string            `json:"domain"`
	CA         string            `json:"ca"`
}

// Image is what stands for a container image.
type Image struct {
	// Command runs when the container gives none.
	Command []string `json:"command"`
	// Files are put into the container: path inside -> path on this machine.
	Files map[string]string `json:"files,omitempty"`
}

// Timings. The real ones are slower; a test should not wait for them.
const (
	leaseEvery  = 3 * time.Second
	leaseLasts  = 12 // seconds
	statusEvery = 10 * time.Second
	// requestTimeout is a kubelet's own: a slow API server gets an answer through.
	requestTimeout = 10 * time.Second

	// retryMin and retryMax are between two attempts at what failed.
	retryMin = 100 * time.Millisecond
	retryMax = 2 * time.Second

	backOffMin = 500 * time.Millisecond
	backOffMax = 20 * time.Second
)

// ReadConfig reads a node's configuration.
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
