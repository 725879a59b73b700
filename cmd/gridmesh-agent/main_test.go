package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/spf13/pflag"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"sigs.k8s.io/yaml"

	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/node/report"
)

// asAgent is set in the environment of a process of this binary that is the
// agent.
const asAgent = "GRIDMESH_TEST_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(asAgent) != "" {
		os.Exit(run.Main(command(defaults()), exitCode))
	}
	testkit.Namespaced(m.Run)
}

// place is a node of a test: a network of its own, and a directory.
type place struct {
	*testing.T
	dir string
}

func newPlace(t *testing.T) place {
	t.Helper()
	testkit.NewNetwork(t)
	dir, err := os.MkdirTemp("", "agent") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return place{t, dir}
}

// agent prepares the agent, with directories of its own by name.
func (p place) agent(name string, args ...string) *exec.Cmd {
	base := filepath.Join(p.dir, name)
	cmd := exec.CommandContext(p.Context(), "/proc/self/exe", append([]string{
		"--node-name", "a-1", "--state-dir", base + ".state", "--xds-socket", base + ".x", "--status-socket", base + ".s", "--feed-socket", base + ".f", "--admin-socket", base + ".admin",
		"--healthz-bind-address=", "--metrics-bind-address=", "--service-cidr", "10.96.0.0/16,fd00:96::/112", "--pod-cidr", "10.244.1.0/24",
	}, args...)...)
	cmd.Args[0] = "gridmesh-agent"
	cmd.Env = append(os.Environ(), asAgent+"=1", "GORACE=atexit_sleep_ms=0")
	return cmd
}

// ends runs it, wants an exit code, and returns what it said.
func (p place) ends(cmd *exec.Cmd, code int) string {
	p.Helper()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		p.Errorf("%v: exit code %d, want %d:\n%s", cmd.Args[1:], got, code, out)
	}
	return string(out)
}

// serves starts the agent and waits until it serves what its source says.
func (p place) serves(name string, args ...string) (stop func()) {
	p.Helper()
	return p.servesFrom(report.Live, name, args...)
}

func (p place) servesFrom(source, name string, args ...string) (stop func()) {
	p.Helper()
	cmd := p.agent(name, args...)
	var out bytes.Buffer
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		r, err := report.Ask(p.Context(), filepath.Join(p.dir, name+".s"))
		if err == nil && r.Source == source {
			return stop
		}
		if time.Now().After(end) {
			stop()
			p.Fatalf("it does not serve: %v\n%s", err, out.String())
		}
	}
}

// manifests is an empty directory of manifests.
func (p place) manifests() string {
	p.Helper()
	dir := filepath.Join(p.dir, "manifests")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		p.Fatal(err)
	}
	return dir
}

// left is what of an agent is in the network, and its sockets.
func (p place) left() (found []string) {
	p.Helper()
	conn, err := nftables.New()
	if err != nil {
		p.Fatal(err)
	}
	tables, err := conn.ListTables()
	if err != nil {
		p.Fatal(err)
	}
	for _, t := range tables {
		found = append(found, "table "+t.Name)
	}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		rules, err := netlink.RuleList(family)
		if err != nil {
			p.Fatal(err)
		}
		for i := range rules {
			if rules[i].Mark != 0 {
				found = append(found, rules[i].String())
			}
		}
	}
	sockets, err := filepath.Glob(filepath.Join(p.dir, "*.[xsf]"))
	if err != nil {
		p.Fatal(err)
	}
	return append(found, sockets...)
}

// A start that fails leaves the node as it was; where an agent served before,
// its rules go on.
func TestAStartThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	absent := filepath.Join(p.dir, "absent")
	if out := p.ends(p.agent("a", "--manifests", absent), 1); !strings.Contains(out, "read --manifests") || !strings.Contains(out, absent) {
		t.Errorf("it says: %s", out)
	}
	if left := p.left(); len(left) > 0 {
		t.Errorf("a bad --manifests leaves %v", left)
	}
	busy := filepath.Join(p.dir, "b.f") // the last of the sockets
	l, err := run.ListenUnix(busy, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	p.ends(p.agent("b", "--manifests", p.manifests()), 3)
	if left := p.left(); len(left) != 1 || left[0] != busy {
		t.Errorf("a socket that is taken leaves %v", left)
	}
	_ = l.Close()
	_ = os.Remove(busy)

	p.serves("c", "--manifests", p.manifests())()
	if l, err = run.ListenUnix(filepath.Join(p.dir, "c.f"), slog.Default()); err != nil {
		t.Fatal(err)
	}
	rules := func() []string { // without the sockets, of which the one before left its own
		return slices.DeleteFunc(p.left(), func(what string) bool { return strings.HasPrefix(what, p.dir) })
	}
	before := rules()
	p.ends(p.agent("c", "--manifests", p.manifests()), 3)
	if after := rules(); len(before) == 0 || strings.Join(after, ", ") != strings.Join(before, ", ") {
		t.Errorf("a start that failed made %v of %v", after, before)
	}
	_ = l.Close()
}

// Where --proc-sys leads nowhere, nothing is done.
func TestSysctlsElsewhere(t *testing.T) {
	p := newPlace(t)
	for _, args := range [][]string{{"--manifests", p.manifests()}, {"cleanup"}} {
		if out := p.ends(p.agent("a", append(args, "--proc-sys", p.dir)...), 2); !strings.Contains(out, "--proc-sys "+p.dir+" is not where the kernel has its sysctls") {
			t.Errorf("%v: %s", args, out)
		}
	}
	if left := p.left(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A range that would cut the node off is found on the node itself, before it is
// guarded.
func TestAGuardOverTheNodesOwnNetworkIsRefused(t *testing.T) {
	p := newPlace(t)
	la := netlink.NewLinkAttrs()
	la.Name = "eth0"
	eth := &netlink.Bridge{LinkAttrs: la}
	addr, err := netlink.ParseAddr("10.96.3.7/24")
	if err := errors.Join(err, netlink.LinkAdd(eth), netlink.AddrAdd(eth, addr), netlink.LinkSetUp(eth)); err != nil {
		t.Fatal(err)
	}
	if out := p.ends(p.agent("a", "--manifests", p.manifests()), 3); !strings.Contains(out, "--service-cidr 10.96.0.0/16 overlaps 10.96.3.0/24, the network of eth0") {
		t.Errorf("it says: %s", out)
	}
	if left := p.left(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// Whoever comes beside a live agent is told so with the same code, whatever of
// it is met first.
func TestBesideALiveAgent(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	stop := p.serves("a", "--manifests", p.manifests())
	defer stop()
	for name, cmd := range map[string]*exec.Cmd{
		"cleanup":                                 p.agent("a", "cleanup"),
		"cleanup with another --state-dir":        p.agent("b", "cleanup"),
		"a second agent":                          p.agent("a", "--manifests", p.manifests()),
		"a second agent with other directories":   p.agent("b", "--manifests", p.manifests()),
		"a second agent with another --state-dir": p.agent("a", "--manifests", p.manifests(), "--state-dir", filepath.Join(p.dir, "other")),
	} {
		if out := p.ends(cmd, 3); !strings.Contains(out, "another gridmesh-agent, or a cleanup") || !strings.Contains(out, "stop it") {
			t.Errorf("%s: %s", name, out)
		}
	}
}

// Without the capability there is no way to begin, and the word for it is said.
func TestTheCapabilityIsNamed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, args := range [][]string{{"--manifests", p.manifests()}, {"cleanup"}} {
		cmd := p.agent("a", args...)
		// Root of a user namespace that does not own this network.
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{Size: 1}}, GidMappings: []syscall.SysProcIDMap{{Size: 1}},
		}
		if out := p.ends(cmd, 1); !strings.Contains(out, "CAP_NET_ADMIN") {
			t.Errorf("%v: %s", args, out)
		}
	}
	if left := p.left(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestUnknownCommands(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	if out := p.ends(p.agent("a", "bogus"), 2); !strings.Contains(out, `unknown command "bogus"`) || !strings.Contains(out, "bootstrap, cleanup, completion, status") {
		t.Errorf("bogus: %s", out)
	}
	for _, format := range []string{"xml", "text", ""} {
		if out := p.ends(p.agent("a", "status", "-o", format), 2); !strings.Contains(out, fmt.Sprintf("-o %q is not known; use table, json or yaml", format)) {
			t.Errorf("status -o %s: %s", format, out)
		}
	}
}

// What programs read has the same fields in both forms, and lists are lists
// where nothing is in them.
func TestStatusForPrograms(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	defer p.serves("a", "--manifests", p.manifests())()
	if out := p.ends(p.agent("a", "status", "-o", "table"), 0); !strings.Contains(out, "node        a-1\n") {
		t.Errorf("status -o table: %s", out)
	}
	out := p.ends(p.agent("a", "status", "-o", "json"), 0)
	report, asJSON := &report.Report{}, map[string]any{}
	if err := errors.Join(json.Unmarshal([]byte(out), report), json.Unmarshal([]byte(out), &asJSON)); err != nil {
		t.Fatal(err)
	}
	envoys, listed := asJSON["envoys"].([]any)
	if asJSON["node"] != "a-1" || asJSON["source"] != "live" || asJSON["version"] == "" || !listed || len(envoys) != 0 {
		t.Errorf("got %s", out)
	}
	var text bytes.Buffer
	if err := writeStatus(&text, report, formatYAML); err != nil {
		t.Fatal(err)
	}
	asYAML := map[string]any{}
	if err := yaml.Unmarshal(text.Bytes(), &asYAML); err != nil || !reflect.DeepEqual(asYAML, asJSON) {
		t.Errorf("as YAML: %v, %v; as JSON: %v", asYAML, err, asJSON)
	}
	text.Reset()
	if err := writeStatus(&text, report, formatTable); err != nil || !strings.Contains(text.String(), "node        a-1\n") {
		t.Errorf("as a table: %v: %s", err, text.String())
	}
}

// The bootstrap goes by these flags of the agent and no others: who gives one to the
// agent gives it to the bootstrap, too, as the chart does (test/chart).
func TestFlagsOfTheBootstrap(t *testing.T) {
	made := func(flag, value string) string {
		c := defaults()
		root := command(c)
		if err := root.ParseFlags([]string{"--node-name=a-1", "--" + flag + "=" + value}); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := printBootstrap(&out, c); err != nil {
			t.Fatalf("--%s=%s: %v", flag, value, err)
		}
		return out.String()
	}
	values := map[string]string{ // of a form of their own
		"mark": "0x4/0xc", "healthz-bind-address": "", "metrics-bind-address": "", "pod-cidr": "10.244.0.0/24", "service-cidr": "10.96.0.0/16", "topology-keys": "union",
		"datapath": "auto", "bridge-netfilter": "keep", "network-policies": "refuse", "cluster-domain": "edge.example", "hosts-file": "/x", "nodeport-addresses": "", "node-name": "b-1", "take-over": "",
	}
	plain := made("verbose", "false")
	var found []string
	command(defaults()).PersistentFlags().VisitAll(func(f *pflag.Flag) {
		value, ok := values[f.Name]
		switch kind := f.Value.Type(); {
		case ok:
		case kind == "bool":
			value = "true"
		case kind == "string":
			value = "/somewhere/else"
		case kind == "duration":
			value = "7s"
		default:
			value = "17"
		}
		if made(f.Name, value) != plain {
			found = append(found, f.Name)
		}
	})
	if want := []string{"admin-socket", "envoy-heap-limit", "listen-port-base", "mark", "node-name", "xds-socket"}; !slices.Equal(found, want) {
		t.Errorf("it goes by %q, want %q; deploy/, test/chart and docs/install.md give both the same", found, want)
	}
}
