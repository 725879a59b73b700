package kubernetes

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

// told are the rows of a table of docs/security.md: the first cell, without
// its quotes, and the second.
func told(t *testing.T, heading string) map[string]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(edge.Root(), "docs/security.md"))
	must(t, err)
	_, text, _ := strings.Cut(string(page), "\n## "+heading+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	rows := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\|").FindAllStringSubmatch(text, -1) {
		rows[m[1]] = m[2]
	}
	if len(rows) < 5 {
		t.Fatalf("docs/security.md has only %d rows below %q", len(rows), heading)
	}
	return rows
}

// notOnNodes are programs that listen in pods of their own, if at all: deploy/ has neither
// gridmesh-admission nor gridmesh-health, which components bring.
var notOnNodes = []string{"gridmesh-controller", "gridmesh-admission", "gridmesh-health"}

// asTold waits until a node that deploy/ serves is as docs/security.md has it:
// what listens there, which files there are, and with which modes.
func asTold(t *testing.T, node string) {
	t.Helper()
	sockets, paths := told(t, "What listens"), told(t, "What is on disk")
	wait.Eventually(t, func() error {
		return errors.Join(socketsAsTold(c.Nodes[node], sockets), filesAsTold(c.Nodes[node], paths))
	})
	delete(sockets, "127.0.0.1:8191")
	if socketsAsTold(c.Nodes[node], sockets) == nil {
		t.Error("a listener that the page does not tell goes unseen")
	}
	paths["/run/gridmesh/xds.sock"] = "0600"
	if filesAsTold(c.Nodes[node], paths) == nil {
		t.Error("a mode that the page tells wrongly goes unseen")
	}
}

func socketsAsTold(n *cluster.Node, rows map[string]string) error {
	listening, err := n.NS.Listening()
	errs := []error{err}
	var found []string
	for _, at := range listening {
		if at.Addr().IsUnspecified() { // Go listens on both families by a socket of IPv6
			at = netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port())
		}
		found = append(found, at.String())
	}
	for _, address := range found {
		if _, ok := rows[address]; !ok {
			errs = append(errs, fmt.Errorf("%s listens on %s, which docs/security.md does not tell", n.Name, address))
		}
	}
	for address, who := range rows {
		program, _, _ := strings.Cut(who, ",")
		if !slices.Contains(notOnNodes, program) && !strings.HasPrefix(address, "/") && !slices.Contains(found, address) {
			errs = append(errs, fmt.Errorf("docs/security.md tells of %s (%s), where nobody listens on %s", address, who, n.Name))
		}
	}
	return errors.Join(errs...)
}

// filesAsTold looks below the directories of the host.
func filesAsTold(n *cluster.Node, rows map[string]string) error {
	host, seen := filepath.Join(n.Dir, "host"), map[string]bool{}
	var errs []error
	look := func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, host)
		for pattern, mode := range rows {
			if ok, _ := filepath.Match(pattern, name); ok {
				seen[pattern] = true
				if got := fmt.Sprintf("%04o", info.Mode().Perm()); got != mode {
					errs = append(errs, fmt.Errorf("%s has mode %s; docs/security.md says %s", name, got, mode))
				}
				return nil
			}
		}
		errs = append(errs, fmt.Errorf("%s has %s, which docs/security.md does not tell", n.Name, name))
		return nil
	}
	for _, dir := range []string{"/run/gridmesh", "/var/lib/gridmesh"} {
		errs = append(errs, filepath.WalkDir(filepath.Join(host, dir), look))
	}
	passing := []string{"/var/lib/gridmesh/outage", "/run/gridmesh/.*.lock", "/var/lib/gridmesh/manifests", "/run/gridmesh/envoy.yaml"} // while the cloud is away, or a socket is opened; with --manifests; with deploy/systemd
	for pattern := range rows {
		ofHealth := slices.Contains([]string{"/run/gridmesh-health", "/run/gridmesh/health", "/var/lib/gridmesh-health"}, filepath.Dir(pattern))
		if !seen[pattern] && !slices.Contains(passing, pattern) && !ofHealth {
			errs = append(errs, fmt.Errorf("docs/security.md tells of %s, which %s does not have", pattern, n.Name))
		}
	}
	return errors.Join(errs...)
}

// Those come with what they count, or with the path that they are of.
var onlyWhenCounted = []string{"gridmesh_xds_nacks_total", "gridmesh_node_findings", "gridmesh_feed_held_total", "gridmesh_service_", "gridmesh_envoy_", "gridmesh_frontends"}

// alertsHaveData looks for what alerts ask of agent and DNS in what they show.
func alertsHaveData(text string) error {
	rules, err := os.ReadFile(filepath.Join(edge.Root(), "deploy/monitoring/rules.yaml"))
	errs, asked := []error{err}, 0
	for _, m := range regexp.MustCompile(`(?m)^ +expr: .*$`).FindAllString(string(rules), -1) {
		for _, name := range regexp.MustCompile(`\b(gridmesh|coredns)_[a-z_]+`).FindAllString(m, -1) {
			if strings.HasPrefix(name, "gridmesh_grid_") || strings.HasPrefix(name, "gridmesh_controller_") ||
				slices.ContainsFunc(onlyWhenCounted, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
				continue
			}
			if asked++; !strings.Contains(text, "\n"+name) {
				errs = append(errs, fmt.Errorf("there is no %s", name))
			}
		}
	}
	if asked < 8 {
		errs = append(errs, fmt.Errorf("only %d metrics were looked for", asked))
	}
	return errors.Join(errs...)
}
