// Package coredns builds a CoreDNS as its users do, from a plugin.cfg of their
// own with the plugins of gridmesh in it, and asks it.
package coredns

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/test/cluster/edge"
	"github.com/gridmesh/gridmesh/test/cluster/wait"
)

const pluginCfg = `
ready:ready
prometheus:metrics
errors:errors
loadbalance:loadbalance
cache:cache
nodelocal:github.com/gridmesh/gridmesh/dnsplugin/nodelocal
bind:bind
grid:github.com/gridmesh/gridmesh/dnsplugin
kubernetes:kubernetes
forward:forward
`

func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// build makes a CoreDNS of the version that go.mod names.
func build(t *testing.T) string {
	t.Helper()
	root, dir := edge.Root(), t.TempDir()
	from := command(t, root, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/coredns/coredns")
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"plugin.cfg": pluginCfg, "go.sum": string(own) + string(sums)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command(t, dir, "go", "run", "directives_generate.go")
	command(t, dir, "go", "mod", "edit", "-require=github.com/gridmesh/gridmesh@v0.0.0", "-replace=github.com/gridmesh/gridmesh="+root)
	command(t, dir, "env", "CGO_ENABLED=0", "go", "build", "-trimpath", "-mod=mod", "-o", "coredns", ".") // as make build, which has compiled most of it
	return filepath.Join(dir, "coredns")
}

// serve runs it with a Corefile on a free port of this machine, until the test
// ends, and returns its address.
func serve(t *testing.T, program, corefile string) string {
	t.Helper()
	port := strconv.Itoa(testkit.FreePort(t))
	address := net.JoinHostPort("127.0.0.1", port)
	path := filepath.Join(t.TempDir(), "Corefile")
	if err := os.WriteFile(path, []byte(strings.Replace(corefile, "{", "{\n bind 127.0.0.1", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd := exec.CommandContext(t.Context(), program, "-conf", path, "-dns.port", port)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		<-ended // the test's context is over by now
		if t.Failed() {
			t.Log(out.String())
		}
	})
	wait.Eventually(t, func() error {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("it ended: %v", err)
		default:
		}
		_, err := ask(address, "example.org.", dns.TypeA)
		return err
	})
	return address
}

// ask waits long: on one machine no datagram is lost, and a slow one is no failure.
func ask(address, name string, qtype uint16) (*dns.Msg, error) {
	m, _, err := (&dns.Client{Timeout: 20 * time.Second}).Exchange(new(dns.Msg).SetQuestion(name, qtype), address)
	return m, err
}

// A CoreDNS of one's own answers grid names; every example of the plugin's
// README starts it.
func TestPluginCfg(t *testing.T) {
	program := build(t)
	for _, name := range []string{"grid", "nodelocal"} {
		if list := command(t, ".", program, "-plugins"); !slices.Contains(strings.Fields(list), name) {
			t.Errorf("its plugins are without %s:\n%s", name, list)
		}
	}
	address := serve(t, program, fmt.Sprintf(". {\n grid cluster.local {\n  node a-1\n  services on\n  source file://%s/examples/two-units\n }\n}\n", edge.Root()))
	wait.Eventually(t, func() error {
		m, err := ask(address, "web.default.svc.cluster.local.", dns.TypeA)
		if err == nil && (len(m.Answer) != 1 || !strings.HasSuffix(m.Answer[0].String(), "10.96.0.10")) {
			err = fmt.Errorf("answered\n%s", m)
		}
		return err
	})

	text, err := os.ReadFile(filepath.Join(edge.Root(), "dnsplugin", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)~~~ corefile\n(.*?)~~~").FindAllStringSubmatch(string(text), -1)
	if len(examples) < 2 {
		t.Fatalf("%d examples in the README", len(examples))
	}
	for _, e := range examples {
		t.Run("", func(t *testing.T) {
			serve(t, program, strings.ReplaceAll(e[1], "/var/lib/gridmesh", t.TempDir()))
		})
	}
}
