package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

// deadSocket is what an agent that was killed leaves.
func deadSocket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	return path
}

// webOnly keeps the Service web.
func webOnly(s *topology.Service) *topology.Service {
	if s.Key.Name != "web" {
		return nil
	}
	return s
}

// Without an agent and without an API server one looks at what the agent kept,
// and leaves it as it is.
func TestLastGoodState(t *testing.T) {
	manifests := filepath.Join(t.TempDir(), "all.yaml")
	if err := os.WriteFile(manifests, []byte(exampleState), 0o600); err != nil {
		t.Fatal(err)
	}
	snap, err := source.Input{Paths: []string{manifests}}.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	data, err := source.EncodeState(&source.State{
		Snapshot: source.Subset(snap, "edge-7", webOnly),
		PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.7.0/24")},
		Node:     "edge-7",
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, source.StateFile)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, log := gridmesh(t, "view", "--state-dir", dir) // of the node that kept it, whatever this host is called
	if code != 0 || !strings.Contains(out, "10.244.7.8") || strings.Contains(out, "default/db") || !strings.HasPrefix(log, "note: this is the last good state, of ") {
		t.Errorf("code %d:\n%s%s", code, out, log)
	}
	if code, out, log = gridmesh(t, "trace", "--node", "edge-7", "--state-dir", dir, "--from", "10.244.7.9", "--to", "10.96.0.10:80/tcp"); code != 0 || !strings.Contains(out, "10.244.7.8") || strings.Contains(log, "--pod-cidr") {
		t.Errorf("code %d:\n%s%s", code, out, log)
	}
	if !strings.Contains(log, "note: no agent runs here ("+feedSocket+" is not there): this is what would be with one; ") {
		t.Errorf("a trace where no agent ran since the boot: %s", log)
	}
	usual := feedSocket
	feedSocket = deadSocket(t) // its rules are in force yet
	_, _, log = gridmesh(t, "trace", "--state-dir", dir, "--from", "10.244.7.9", "--to", "10.96.0.10:80/tcp")
	if feedSocket = usual; strings.Contains(log, "in force") {
		t.Errorf("a trace where an agent was killed: %s", log)
	}
	_, out, log = gridmesh(t, "trace", "--node", "edge-8", "--lenient", "--state-dir", dir, "--from", "10.244.7.9", "--to", "10.96.0.10:80/tcp")
	if strings.Contains(out, "is a pod of this node") || !strings.Contains(log, othersPods) || strings.Contains(log, "no agent runs here") {
		t.Errorf("a trace of another node:\n%s%s", out, log)
	}
	if code, _, log = gridmesh(t, "view", "--node", "edge-8", "--state-dir", dir); code != 1 || !strings.Contains(log, "--node may be edge-7") {
		t.Errorf("another node: code %d: %s", code, log)
	}
	for _, socket := range []string{filepath.Join(dir, "none"), deadSocket(t)} {
		_, _, without := gridmesh(t, "view", "--socket", socket)
		usual := stateDir
		stateDir = dir
		code, _, log = gridmesh(t, "view", "--socket", socket)
		stateDir = usual
		if code != 1 || !strings.Contains(log, "--state-dir "+dir+" has what it kept") || strings.Contains(without, "--state-dir") || strings.Contains(log, "wrong flags") {
			t.Errorf("%s: code %d: %s; without a state: %s", socket, code, log, without)
		}
	}
	for _, args := range [][]string{{"-f", manifests}, {"--kubeconfig", manifests}, {"--context", "x"}, {"--socket", path}} {
		if code, _, log = gridmesh(t, append([]string{"view", "--state-dir", dir}, args...)...); code != 2 || !strings.Contains(log, "--state-dir excludes") {
			t.Errorf("%v: code %d: %s", args, code, log)
		}
	}
	if code, _, log = gridmesh(t, "view", "--state-dir", ""); code != 2 || !strings.Contains(log, "--state-dir is empty") {
		t.Errorf("empty: code %d: %s", code, log)
	}
	if code, _, log = gridmesh(t, "view", "--state-dir", t.TempDir()); code != 1 || !strings.Contains(log, "no last good state is in") {
		t.Errorf("none: code %d: %s", code, log)
	}
	if err := os.WriteFile(path, data[:len(data)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, log = gridmesh(t, "view", "--node", "edge-7", "--state-dir", dir); code != 1 || !strings.Contains(log, path) {
		t.Errorf("half a file: code %d: %s", code, log)
	}
	if left, err := os.ReadFile(path); err != nil || len(left) != len(data)/2 {
		t.Errorf("it was changed: %d bytes, %v", len(left), err)
	}
}

// keptState is what the agent of edge-7 kept, which used web alone, of manifests.
func keptState(t *testing.T) (dir, manifests string) {
	t.Helper()
	manifests = filepath.Join(t.TempDir(), "all.yaml")
	if err := os.WriteFile(manifests, []byte(exampleState), 0o600); err != nil {
		t.Fatal(err)
	}
	snap, err := source.Input{Paths: []string{manifests}}.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	data, err := source.EncodeState(&source.State{
		Snapshot: source.Subset(snap, "edge-7", webOnly), Node: "edge-7",
	})
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, source.StateFile), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, manifests
}

// A name that a last good state has not may be of a Service that its node did not use: that
// it does not exist is said of a whole state alone. It ends as view does, for a Service that
// is not there.
func TestNamesOfALastGoodState(t *testing.T) {
	dir, manifests := keptState(t)
	const lacks = "a last good state lacks the Services that its node did not use"
	for _, c := range []struct {
		name, result, why string
		code              int
	}{
		{"web", "NOERROR", "", 0},
		{"db", "UNKNOWN", lacks + ": others are asked", 1},
		{"_http._tcp.web", "UNKNOWN", lacks + ": others are asked", 1},
		{"10.96.0.99", "FOREIGN", lacks, 0},
		{"example.org.", "FOREIGN", "", 0},
	} {
		code, out, log := gridmesh(t, "dns", c.name, "--state-dir", dir)
		if code != c.code || !strings.Contains(out, "  "+c.result+"  ") || !strings.Contains(out, c.why) || strings.Contains(out, lacks) != (c.why != "") {
			t.Errorf("%s: code %d: %s%s", c.name, code, out, log)
		}
		if unsure := strings.Contains(log, "whether the name exists is not known, for this state is a part: "); unsure != (c.code == 1) {
			t.Errorf("%s: %s", c.name, log)
		}
		if code, _, _ := gridmesh(t, "dns", c.name, "--state-dir", dir, "--lenient"); code != 0 {
			t.Errorf("%s, --lenient: code %d", c.name, code)
		}
	}
	if code, _, log := gridmesh(t, "view", "db", "--state-dir", dir); code != 1 {
		t.Errorf("view of a Service that is not there: code %d: %s", code, log)
	}
	if code, out, _ := gridmesh(t, "dns", "other", "-f", manifests, "--node", "edge-7"); code != 1 || !strings.Contains(out, "ABSENT") {
		t.Errorf("of a whole state: code %d: %s", code, out)
	}
}

// Where the cluster does not answer, people are told what else has a state: the
// agent, what it kept, or that a node has these.
func TestClusterAway(t *testing.T) {
	config := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: 'https://%s'}}]}", testkit.Nobody(t))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	usual := stateDir
	t.Cleanup(func() { stateDir = usual })
	kept := t.TempDir()
	if err := os.WriteFile(filepath.Join(kept, source.StateFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	none := t.TempDir()
	for name, test := range map[string]struct{ dir, socket, want string }{
		"nothing is here": {none, "", "on a node its agent tells what it knows (--socket), and its disk what it kept (--state-dir, most often " + none + ")"},
		"kept":            {kept, "", "--state-dir " + kept + " has what the agent of this node kept"},
		"an agent":        {kept, agent(t, "edge-7"), "the agent of this node knows a state as well: leave --kubeconfig and --context out"},
	} {
		stateDir = test.dir
		for _, args := range [][]string{{"view"}, {"xds"}, {"dns", "web.default"}, {"trace", "--from", "10.0.0.1", "--to", "10.96.0.1:80"}} {
			args = append(args, "--kubeconfig", config)
			if test.socket != "" {
				args = append(args, "--socket", test.socket)
			}
			if code, _, log := gridmesh(t, args...); code != 1 || !strings.Contains(log, "nothing listens there") || !strings.Contains(log, test.want) {
				t.Errorf("%s, %v: code %d: %s, want %q", name, args, code, log, test.want)
			}
		}
	}
	stateDir = kept
	t.Setenv("KUBECONFIG", config)
	if code, _, log := gridmesh(t, "view"); code != 1 || !strings.Contains(log, "no agent runs here") || !strings.Contains(log, "--state-dir "+kept) {
		t.Errorf("the cluster that kubectl would ask: code %d: %s", code, log)
	}
	missing := filepath.Join(none, "missing")
	t.Setenv("KUBECONFIG", missing)
	if code, _, log := gridmesh(t, "view"); code != 1 || !strings.Contains(log, "$KUBECONFIG "+missing+" has none") {
		t.Errorf("$KUBECONFIG is of no file: code %d: %s", code, log)
	}
	if code, _, log := gridmesh(t, "grid", "list", "--kubeconfig", config); code != 1 || strings.Contains(log, "--state-dir") {
		t.Errorf("of grids no agent knows anything: code %d: %s", code, log)
	}
}
