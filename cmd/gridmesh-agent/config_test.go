package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/node"
	"github.com/gridmesh/gridmesh/topology"
)

// completed is what flags make.
func completed(t *testing.T, flags ...string) (*config, error) {
	t.Helper()
	c := defaults()
	root := command(c)
	if err := root.ParseFlags(flags); err != nil {
		return nil, err
	}
	return c, c.complete()
}

func TestFlagsReachTheNode(t *testing.T) {
	c, err := completed(t, "--node-name", "a-1", "--pod-cidr", "10.244.1.0/24", "--service-cidr", "10.96.0.0/16,fd00:10::/108",
		"--mark", "0x10/0x30", "--listen-port-base", "16000", "--bridge-netfilter", "keep", "--topology-keys", "union", "--state-dir", "state")
	if err != nil {
		t.Fatal(err)
	}
	if c.node.Render.Mark != 0x20 || !c.node.Render.Redirect || c.node.Render.Ports.Base != 16000 {
		t.Errorf("Envoy and the kernel differ: %+v", c.node.Render)
	}
	if len(c.node.PodCIDRs) != 1 || len(c.node.ServiceCIDRs) != 2 || c.node.Topology.Reading != topology.Union || c.node.ProxyMode != "auto" {
		t.Errorf("got %+v", c.node)
	}
	if c.node.RefusePolicies {
		t.Error("somebody's NetworkPolicy keeps agents from starting by default")
	}
	if c, err := completed(t, "--node-name", "a-1", "--network-policies=refuse", "--service-cidr="); err != nil || !c.node.RefusePolicies || len(c.node.ServiceCIDRs) != 0 {
		t.Errorf("refuse, and no range: %+v, %v", c, err)
	}
	if !strings.HasPrefix(c.node.StateDir, "/") || c.host().StateDir != c.node.StateDir {
		t.Errorf("the state directory is %q", c.node.StateDir)
	}
}

// The kernel and the view agree on whether there is a kernel path.
func TestDatapath(t *testing.T) {
	for _, tc := range []struct {
		flags []string
		path  topology.Datapath
		ports string // where node ports are served; "none" without a kernel path
	}{
		{nil, topology.DatapathAuto, "[]"},
		{[]string{"--datapath", "envoy"}, topology.DatapathNone, "none"},
		{[]string{"--datapath", "auto"}, topology.DatapathAuto, "[]"},
		{[]string{"--datapath", "kernel", "--nodeport-addresses", "primary"}, topology.DatapathKernel, "[]"},
		{[]string{"--datapath", "auto", "--nodeport-addresses", "192.0.2.0/24,2001:db8::/64"}, topology.DatapathAuto, "[192.0.2.0/24 2001:db8::/64]"},
	} {
		c, err := completed(t, append([]string{"--node-name", "a-1"}, tc.flags...)...)
		if err != nil {
			t.Fatal(err)
		}
		ports := "none"
		if c.capture.Kernel != nil {
			ports = fmt.Sprint(c.capture.Kernel.NodePortAddresses)
		}
		if c.node.Datapath != tc.path || ports != tc.ports {
			t.Errorf("%q: path %q, node ports at %s", tc.flags, c.node.Datapath, ports)
		}
	}
}

func TestWrongFlagsAreNamed(t *testing.T) {
	for _, tc := range []struct {
		flags []string
		say   string
	}{
		{[]string{"--mark", "7"}, "BITS/MASK"},
		{[]string{"--mark", "0x4/0x3"}, "BITS must lie inside MASK"},
		{[]string{"--pod-cidr", "10.244.1.5/24"}, "did you mean 10.244.1.0/24"},
		{[]string{"--service-cidr", "nonsense"}, "is no CIDR"},
		{[]string{"--datapath", "x"}, "--datapath \"x\" is not known; use auto, envoy or kernel"},
		{[]string{"--datapath", "envoy", "--nodeport-addresses", "192.0.2.0/24"}, "--nodeport-addresses: node ports are served with --datapath auto or kernel alone"},
		{[]string{"--datapath", "auto", "--nodeport-addresses", "primary,x"}, "--nodeport-addresses: \"primary\" is no CIDR"},
		{[]string{"--datapath", "auto", "--nodeport-addresses", "192.0.2.1/24"}, "--nodeport-addresses 192.0.2.1/24 has bits beyond its length; did you mean 192.0.2.0/24?"},
		{[]string{"--bridge-netfilter", "x"}, "use clear or keep"},
		{[]string{"--network-policies", "x"}, "use warn or refuse"},
		{[]string{"--topology-keys", "both"}, "ordered or union"},
		{[]string{"--route-table", "254"}, "which the kernel uses"},
		{[]string{"--connect-timeout", "1h"}, "between 10ms and 1m"},
		{[]string{"--xds-socket", "/" + strings.Repeat("x", 120)}, "longer than 107 bytes"},
		{[]string{"--state-dir", ""}, `--state-dir "" is no path`},
		{[]string{"--admin-socket", ""}, `--admin-socket "" is no path`},
		{[]string{"--node-name", ""}, "--node-name is empty"},
		{[]string{"--hosts-file", "hosts"}, "give an absolute path"},
		{[]string{"--cluster-domain", "a..b"}, "is no domain"},
		{[]string{"--preload-max", "-1"}, "must not be negative"},
		{[]string{"--node-name", "A B"}, `--node-name "A B" is no name of a Node`},
		{[]string{"--hosts-file", "/"}, "--hosts-file / is a directory; give a file, as /hosts"},
		{[]string{"--healthz-bind-address", "10256"}, `--healthz-bind-address "10256" is no address and port`},
		{[]string{"--metrics-bind-address", "::1:10249:"}, `--metrics-bind-address "::1:10249:" is no address`},
	} {
		_, err := completed(t, append([]string{"--node-name", "a-1"}, tc.flags...)...)
		if !errors.Is(err, run.ErrUsage) || !strings.Contains(err.Error(), tc.say) {
			t.Errorf("%v: %v, want ErrUsage with %q", tc.flags, err, tc.say)
		}
	}
}

func TestSourcesExcludeEachOther(t *testing.T) {
	root := command(defaults())
	root.SetArgs([]string{"--node-name", "a-1", "--kubeconfig", "k", "--manifests", "m"})
	root.SilenceErrors, root.SilenceUsage = true, true
	if err := root.ExecuteContext(t.Context()); !errors.Is(err, run.ErrUsage) || !strings.Contains(err.Error(), "exclude each other") {
		t.Errorf("got %v", err)
	}
}

func TestManifestsAreFilesOrDirectories(t *testing.T) {
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "state.yaml")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, os.DevNull} {
		if err := readable(path); !errors.Is(err, run.ErrUsage) || !strings.Contains(err.Error(), "--manifests "+path+" is neither a directory nor a file") {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range []string{dir, file} {
		if err := readable(path); err != nil {
			t.Error(err)
		}
	}
}

func TestBootstrapIsPrinted(t *testing.T) {
	root := command(defaults())
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs([]string{"bootstrap", "--node-name", "a-1", "--xds-socket", "/run/x.sock"})
	if err := root.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), "/run/x.sock") {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestExitCodes(t *testing.T) {
	for _, tc := range []struct {
		err  error
		code int
	}{
		{fmt.Errorf("start: %w", node.ErrUnfit), exitUnfit},
		{errors.New("something"), 0}, // left to run.Main
	} {
		if got := exitCode(tc.err); got != tc.code {
			t.Errorf("%v: exit code %d, want %d", tc.err, got, tc.code)
		}
	}
}

// The help tells every exit code, as the page does.
func TestExitCodesAreTold(t *testing.T) {
	page, err := os.ReadFile("../../docs/agent.md")
	if err != nil {
		t.Fatal(err)
	}
	for where, text := range map[string]string{"--help": command(defaults()).Long, "docs/agent.md": string(page)} {
		_, told, _ := strings.Cut(text, "\nExit codes: ")
		told, _, _ = strings.Cut(told, "\n\n")
		told = strings.Join(strings.Fields(told), " ")
		for _, want := range []string{"0 stopped, 1 failure, 2 wrong flags or commands", fmt.Sprintf("%d the node is not fit (kube-proxy's rules, ", exitUnfit)} {
			if !strings.Contains(told, want) {
				t.Errorf("%s has the exit codes %q, and not %q", where, told, want)
			}
		}
	}
}

func TestExamples(t *testing.T) {
	testkit.Examples(t, func() *cobra.Command { return command(defaults()) })
}

// What a shell completes is what the flags take, and paths are completed where
// they are meant.
func TestCompletion(t *testing.T) {
	complete := func(args ...string) string {
		root := command(defaults())
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&out)
		root.SetArgs(append([]string{"__complete"}, args...))
		if code := run.Main(root, exitCode); code != 0 {
			t.Errorf("%q: exit code %d: %s", args, code, out.String())
		}
		return out.String()
	}
	for flag, values := range choices {
		if got, want := complete("--"+flag, ""), strings.Join(values, "\n")+"\n:4\n"; !strings.HasPrefix(got, want) {
			t.Errorf("--%s: %q, want %q", flag, got, want)
		}
		for _, value := range values {
			if _, err := completed(t, "--node-name", "a-1", "--datapath", "auto", "--"+flag, value); err != nil {
				t.Errorf("--%s %s is completed and refused: %v", flag, value, err)
			}
		}
	}
	for line, want := range map[string]string{
		"status -o ": "table\njson\nyaml\n:4\n", "status ": ":4\n", "--mark ": ":4\n", "--preload-max ": ":4\n",
		"--kubeconfig ": ":0\n", "--manifests ": ":0\n", "cleanup --state-dir ": ":0\n", "bootstrap --output ": ":0\n",
	} {
		if got := complete(strings.Split(line, " ")...); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestBootstrapIsWrittenToAFile(t *testing.T) {
	c, err := completed(t, "--node-name", "a-1")
	if err != nil {
		t.Fatal(err)
	}
	c.output = t.TempDir()
	if err := printBootstrap(io.Discard, c); !errors.Is(err, run.ErrUsage) || !strings.Contains(err.Error(), "is a directory; give a file, as "+c.output+"/envoy.yaml") {
		t.Errorf("to a directory: %v", err)
	}
	c.output = filepath.Join(c.output, "envoy.yaml")
	if err := printBootstrap(io.Discard, c); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(c.output); err != nil || !strings.Contains(string(text), "node") {
		t.Errorf("%v: %s", err, text)
	}
}
