package docs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

func TestMain(m *testing.M) { testkit.Namespaced(m.Run) }

// The Corefile of deploy/ admits who is named and nobody else, and where the
// cluster's DNS leads back to it the server ends: questions went round in it
// else, until it has no memory left.
func TestCorefileIsSafe(t *testing.T) {
	testkit.NewNetwork(t)
	dns := decode(t, read(t, "deploy/dns.yaml"))
	text := find(t, dns, "ConfigMap", "gridmesh-dns").Data["Corefile"]
	_, acl, _ := strings.Cut(text, "    acl {\n")
	acl, _, _ = strings.Cut(acl, "    }\n")
	const want = "        allow net 169.254.20.11 fd00:6772:6964::53\n        allow net {$POD_CIDR} {$POD_CIDR_2}\n        block\n"
	if acl != want {
		t.Errorf("acl is %q, want %q", acl, want)
	}

	dir := t.TempDir()
	path := filepath.Join(dir, "Corefile")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "/var/lib/gridmesh", dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait.Patience) // of one that goes on, which is the fault
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(edge.Root(), "bin", "gridmesh-dns"), "-conf", path)
	cmd.Env = append(os.Environ(), "NODE_NAME=a-1")
	for _, e := range find(t, dns, "DaemonSet", "gridmesh-dns").Spec.Template.Spec.Containers[0].Env {
		if e.Name == "CLUSTER_DNS" {
			e.Value = edge.NodeDNS[0]
		}
		if e.ValueFrom == nil {
			cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
		}
	}
	said, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(said), `detected for zone "."`) {
		t.Errorf("a loop: %v: %s", err, said)
	}
}
