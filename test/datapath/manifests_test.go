package datapath

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// manifests is a directory of manifests that tests change: the cluster's
// state as the agents see it.
type manifests struct {
	dir   string
	nodes map[string]string
	files map[string]string
}

func newManifests(dir string) *manifests {
	return &manifests{dir: dir, nodes: map[string]string{}, files: map[string]string{}}
}

func (m *manifests) node(name string, labels map[string]string) {
	var b strings.Builder
	fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: %s\n  labels: {", name)
	for k, v := range labels {
		fmt.Fprintf(&b, "%q: %q, ", k, v)
	}
	b.WriteString("}\n")
	m.files["node-"+name] = b.String()
}

// backend is one endpoint.
type backend struct {
	ip   netip.Addr
	node string
}

// service is a Service with one port 80 -> 8080 for TCP and UDP.
type service struct {
	name string
	ips  []netip.Addr
	keys string // the annotation; "" for none
	ends []backend
}

func (s service) at(i int) netip.AddrPort { return netip.AddrPortFrom(s.ips[i], 80) }

func (m *manifests) service(s service) {
	var b strings.Builder
	fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: %s\n", s.name)
	if s.keys != "" {
		fmt.Fprintf(&b, "  annotations: {topologyKeys: '%s'}\n", s.keys)
	}
	fmt.Fprintf(&b, "spec:\n  clusterIP: %s\n  clusterIPs: [", s.ips[0])
	for _, ip := range s.ips {
		fmt.Fprintf(&b, "%q, ", ip)
	}
	b.WriteString("]\n  ports: [{name: tcp, port: 80, protocol: TCP}, {name: udp, port: 80, protocol: UDP}]\n")
	for _, family := range []string{"IPv4", "IPv6"} {
		fmt.Fprintf(&b, "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: %s-%s\n  labels: {kubernetes.io/service-name: %s}\n", s.name, strings.ToLower(family), s.name)
		fmt.Fprintf(&b, "addressType: %s\nports: [{name: tcp, port: 8080, protocol: TCP}, {name: udp, port: 8080, protocol: UDP}]\nendpoints:\n", family)
		for _, e := range s.ends {
			if e.ip.Is6() == (family == "IPv6") {
				fmt.Fprintf(&b, "- {addresses: [%q], nodeName: %q, conditions: {ready: true}}\n", e.ip, e.node)
			}
		}
	}
	m.files["service-"+s.name] = b.String()
}

func (m *manifests) remove(name string) { delete(m.files, "service-"+name) }

// write makes the directory hold exactly the files.
func (m *manifests) write() error {
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, keep := m.files[strings.TrimSuffix(e.Name(), ".yaml")]; !keep {
			err = errors.Join(err, os.Remove(filepath.Join(m.dir, e.Name())))
		}
	}
	for name, text := range m.files {
		path := filepath.Join(m.dir, name+".yaml")
		if old, readErr := os.ReadFile(path); readErr == nil && string(old) == text {
			continue
		}
		// Renamed into place, so that no agent reads half of it.
		err = errors.Join(err, os.WriteFile(path+".new", []byte(text), 0o644), os.Rename(path+".new", path))
	}
	return err
}
