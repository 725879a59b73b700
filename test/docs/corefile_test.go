package docs

import (
	"context"
	"io"
	"net"
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

	ctx, cancel := context.WithTimeout(t.Context(), wait.Patience) // of one that goes on, which is the fault
	defer cancel()
	cmd := deployedDNS(ctx, t, map[string]string{"CLUSTER_DNS": edge.NodeDNS[0]})
	said, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(said), `detected for zone "."`) {
		t.Errorf("a loop: %v: %s", err, said)
	}
}

// deployedDNS is the server with the Corefile of deploy/ and its environment, but for this.
func deployedDNS(ctx context.Context, t *testing.T, other map[string]string) *exec.Cmd {
	t.Helper()
	dns, dir := decode(t, read(t, "deploy/dns.yaml")), t.TempDir()
	path := filepath.Join(dir, "Corefile")
	text := find(t, dns, "ConfigMap", "gridmesh-dns").Data["Corefile"]
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "/var/lib/gridmesh", dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(edge.Root(), "bin", "gridmesh-dns"), "-conf", path)
	cmd.Env = append(os.Environ(), "NODE_NAME=a-1")
	for _, e := range find(t, dns, "DaemonSet", "gridmesh-dns").Spec.Template.Spec.Containers[0].Env {
		if e.ValueFrom == nil {
			cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
		}
	}
	for name, value := range other { // the last one counts
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}

// The Corefile of deploy/ shows the metrics at the node's address, of either family.
func TestCorefileShowsMetrics(t *testing.T) {
	testkit.NewNetwork(t)
	for _, ip := range []string{"127.0.0.1", "::1"} {
		ctx, stop := context.WithCancel(t.Context())
		cmd := deployedDNS(ctx, t, map[string]string{"METRICS_IP": ip})
		var said testkit.Output
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		page := ""
		wait.Eventually(t, func() (err error) {
			select {
			case <-ended:
				return nil
			default:
			}
			page, err = metricsAt(net.JoinHostPort(ip, "9253"))
			return err
		})
		stop()
		<-ended
		if !strings.Contains(page, "coredns_build_info") {
			t.Errorf("METRICS_IP=%s: %v: %s%s", ip, cmd.ProcessState, page, said.String())
		}
	}
}

// metricsAt asks by hand: a client of HTTP would dial from another thread, which is in
// another network.
func metricsAt(address string) (string, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /metrics HTTP/1.0\r\n\r\n"); err != nil {
		return "", err
	}
	page, err := io.ReadAll(conn)
	return string(page), err
}
