package leaks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/test/cluster"
	"github.com/gridmesh/gridmesh/test/cluster/cgroup"
)

// NoNode fails t unless a real node that was switched off has left nothing on
// this machine: no process, no mount, and no control group that cannot be
// removed. Its network namespaces were its processes' and mounts'.
func NoNode(t *testing.T, n *cluster.Node) {
	t.Helper()
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range groups {
		data, err := os.ReadFile(group)
		if err == nil && strings.Contains(string(data), n.Cgroup()) {
			name, _ := os.ReadFile(filepath.Join(filepath.Dir(group), "comm"))
			t.Errorf("%s left process %s (%s)", n.Name, filepath.Base(filepath.Dir(group)), strings.TrimSpace(string(name)))
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 1 && (strings.HasPrefix(f[1], n.Dir+"/") || strings.Contains(f[1], "/run/containerd/")) {
			t.Errorf("%s left a mount: %s", n.Name, strings.TrimSpace(line))
		}
	}
	if err := n.RemoveCgroup(); err != nil {
		t.Errorf("%s left control groups: %v", n.Name, err)
	}
	if left, err := cgroup.Left(n.Cgroup()); err != nil || len(left) > 0 {
		t.Errorf("control groups of %s after they were removed: %q, %v", n.Name, left, err)
	}
}
