package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/internal/testkit"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
)

// gridmesh runs the program here, in nobody's home.
func gridmesh(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, log bytes.Buffer
	cmd := command()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&log)
	code = run.Main(cmd, nil)
	return code, out.String(), log.String()
}

// agent serves what an agent does: its feed, and a status that names its node
// where there is a name.
func agent(t *testing.T, node string) (socket string) {
	t.Helper()
	if node == "" {
		return agentOf(t, "")
	}
	return agentOf(t, fmt.Sprintf(`{"node": %q, "podCIDRs": ["10.244.7.0/24"]}`, node))
}

// agentOf is one with a status as it says; with none, where it says nothing. Its state has
// what more puts there, too.
func agentOf(t *testing.T, says string, more ...func(*topology.Builder)) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	listen := func(name string) net.Listener {
		l, err := net.Listen("unix", filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	b := topology.NewBuilder()
	b.SetNode(&topology.Node{Name: "edge-7"})
	b.SetNode(&topology.Node{Name: "edge-8"})
	web := topology.ObjectKey{Namespace: "default", Name: "web"}
	b.SetService(&topology.Service{Key: web, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.10")}, Ports: []topology.ServicePort{{Port: 80, Protocol: topology.TCP}}})
	b.SetSlice(&topology.Slice{
		Key: web, Service: "web", Ports: []topology.SlicePort{{Port: 8080, Protocol: topology.TCP}},
		Endpoints: []topology.Endpoint{{Addr: netip.MustParseAddr("10.244.8.2"), Node: "edge-8", Ready: true}},
	})
	for _, put := range more {
		put(b)
	}
	var snapshots source.Snapshots
	snapshots.Publish(b.Build())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	l := listen("feed.sock")
	go func() { ended <- source.Serve(ctx, l, &snapshots, time.Now) }()
	t.Cleanup(func() { cancel(); <-ended })
	if says != "" {
		status := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, says)
		})}
		l := listen("agent.sock")
		go status.Serve(l)
		t.Cleanup(func() { status.Close() })
	}
	return filepath.Join(dir, "feed.sock")
}

// At an agent one looks from the agent's node, whatever this host is called.
func TestViewIsTheAgentsOwn(t *testing.T) {
	socket := agent(t, "edge-7")
	if code, out, log := gridmesh(t, "view", "--socket", socket); code != 0 || !strings.HasPrefix(out, "node edge-7\n") || log != "" {
		t.Errorf("code %d: %s%s", code, out, log)
	}
	if _, out, _ := gridmesh(t, "view", "--socket", socket, "--node", "edge-8"); !strings.HasPrefix(out, "node edge-8\n") {
		t.Errorf("asked for another node: %s", out)
	}
	if _, out, _ := gridmesh(t, "trace", "--socket", socket, "--from", "10.244.7.9", "--to", "10.96.0.10:80"); !strings.Contains(out, "10.244.7.9 is a pod of this node") {
		t.Errorf("trace: %s", out)
	}
	code, _, log := gridmesh(t, "view", "--socket", agent(t, ""))
	if code != 1 || !strings.Contains(log, "the agent does not tell its node") || !strings.Contains(log, "--node may be edge-7, edge-8") {
		t.Errorf("an agent without a status: code %d: %s", code, log)
	}
}

// What the agent knows of its Envoy is said of a packet that it would be given to, and
// of a view that has its frontends: rules alone bring nobody anywhere. It is no news of
// another node.
func TestEnvoyIsToldOf(t *testing.T) {
	const well = `"envoys": [{"version": "1.40.0"}]`
	for says, want := range map[string]string{
		`"envoys": []`:                                          "note: no Envoy is connected; captured connections are refused unless one still runs with what it holds\n",
		`"envoys": [], "envoyAbsent": true`:                     "note: Envoy takes no connections: the kernel serves the first tier of what it served\n",
		`"envoys": [{"over": 5}]`:                               "note: Envoy asked for 5 clusters more than it gets; a connection to one of those ends until it is preloaded\n",
		well + `, "load": {"heapPercent": 99, "stopped": true}`: "note: Envoy takes no more connections: its memory is full (99 % of --envoy-heap-limit)\n",
		well + `, "load": {"newlyRefused": 3}`:                  "note: Envoy takes no more connections: it has as many as --envoy-heap-limit leaves room for\n",
		well + `, "nacks": [{"type": "cluster", "name": "10.96.0.10:80", "service": "default/web", "reason": "x"}]`: "note: Envoy refuses cluster 10.96.0.10:80 (service default/web): x; Envoy goes on with what it had of it\n",
		well + `, "nacks": [{"type": "cluster", "name": "10.96.0.1:80", "service": "default/db", "reason": "x"}]`:   "",
		well + `, "moreNacks": 2`:         "note: Envoy refuses 2 resources more\n",
		well + `, "load": {"refused": 7}`: "",
		`"envoys": null`:                  "", // of an agent that does not say
	} {
		socket := agentOf(t, `{"node": "edge-7", "podCIDRs": ["10.244.7.0/24"], `+says+`}`)
		args := []string{"trace", "--socket", socket, "--from", "10.244.7.9", "--to", "10.96.0.10:80"}
		code, out, log := gridmesh(t, args...)
		if code != 0 || !strings.Contains(out, "verdict: envoy\n") || log != want {
			t.Errorf("%s: code %d, %q, want %q\n%s", says, code, log, want, out)
		}
		view := []string{"view", "web", "--socket", socket}
		if code, out, log := gridmesh(t, view...); code != 0 || !strings.Contains(out, "10.244.8.2:8080") || log != want {
			t.Errorf("view, %s: code %d, %q, want %q\n%s", says, code, log, want, out)
		}
		if _, _, log = gridmesh(t, append(view, "--node", "edge-8")...); log != "" {
			t.Errorf("%s: a view of another node: %s", says, log)
		}
		if _, _, log = gridmesh(t, append(args, "--node", "edge-8")...); log != othersPods+othersForce {
			t.Errorf("%s: a trace of another node: %s", says, log)
		}
	}
	if _, out, log := gridmesh(t, "trace", "--socket", agentOf(t, `{"node": "edge-7", "envoys": []}`), "--from", "10.244.7.9", "--to", "192.0.2.1:80"); log != "" {
		t.Errorf("of a packet that passes: %s%s", log, out)
	}
	if _, out, log := gridmesh(t, "view", "--socket", agentOf(t, `{"node": "edge-7", "envoys": [], "datapath": "kernel"}`)); log != "" {
		t.Errorf("of a view that has nothing of Envoy's: %s%s", log, out)
	}
}

// What is noted where an agent of edge-7 is asked, and a packet leaves edge-8.
const (
	othersPods  = "note: the agent of edge-7 does not know which pods are edge-8's: give --pod-cidr where --from is one\n"
	othersForce = "note: whether edge-8 has these rules in force, and an Envoy that serves, the agent of edge-7 does not know: ask on edge-8\n"
)

// What an agent says of its own node is not said of another: the pods of the one are none
// of the other's. What it was started with is taken, and said.
func TestTraceOfAnotherNode(t *testing.T) {
	const known, taken = "10.244.7.9 is a pod of this node", "note: --datapath auto is what the agent of edge-7 has: give the flag if that of edge-8 has another\n"
	envoy, auto := agent(t, "edge-7"), agentOf(t, `{"node": "edge-7", "podCIDRs": ["10.244.7.0/24"], "datapath": "auto"}`)
	for name, c := range map[string]struct {
		socket string
		args   []string
		known  bool
		log    string
	}{
		"its own":            {envoy, nil, true, ""},
		"its own, by name":   {envoy, []string{"--node", "edge-7"}, true, ""},
		"another":            {envoy, []string{"--node", "edge-8"}, false, othersPods + othersForce},
		"another's pods":     {envoy, []string{"--node", "edge-8", "--pod-cidr", "10.244.7.0/24"}, true, othersForce},
		"another's datapath": {auto, []string{"--node", "edge-8"}, false, othersPods + othersForce + taken},
		"which is given":     {auto, []string{"--node", "edge-8", "--datapath", "auto"}, false, othersPods + othersForce},
	} {
		args := append([]string{"trace", "--socket", c.socket, "--from", "10.244.7.9", "--to", "10.96.0.10:80"}, c.args...)
		if code, out, log := gridmesh(t, args...); code != 0 || strings.Contains(out, known) != c.known || log != c.log {
			t.Errorf("%s: code %d: %q, want %q\n%s", name, code, log, c.log, out)
		}
	}
	if _, _, log := gridmesh(t, "view", "--socket", auto, "--node", "edge-8"); log != taken {
		t.Errorf("view: %s", log)
	}
}

// Who does not answer is given up after --timeout, with who it was and what to
// check; who refuses, at once.
func TestTimeout(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // its kernel answers, and nobody else
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for what, c := range map[string]struct{ address, timeout, want string }{
		"silent":  {silent.Addr().String(), "200ms", "nothing answers"},
		"refused": {testkit.Nobody(t), "1h", "nothing listens there"},
	} {
		path := filepath.Join(t.TempDir(), "kubeconfig")
		text := fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: 'https://%s'}}]}", c.address)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"view"}, {"xds"}, {"trace", "--from", "10.0.0.1", "--to", "10.96.0.1:80"}, {"dns", "web.default"}, {"grid", "list"}, {"grid", "units", "till"}, {"grid", "history", "till"}, {"grid", "rollback", "till"}} {
			code, _, log := gridmesh(t, append(args, "--kubeconfig", path, "--timeout", c.timeout)...)
			if code != 1 || !strings.Contains(log, c.want) || !strings.Contains(log, "https://"+c.address+", of kubeconfig "+path) {
				t.Errorf("%s, %v: code %d: %s", what, args, code, log)
			}
		}
	}
}

// Who waits for what is not written hears for what, after a moment.
func TestWaitingForManifestsIsSaid(t *testing.T) {
	silent, writes, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	var said testkit.Output
	cmd := command()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetIn(silent)
	cmd.SetErr(&said)
	cmd.SetArgs([]string{"view", "-f", "-"})
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(t.Context()) }()
	const want = "waiting for standard input: it is read to its end\n"
	for deadline := time.Now().Add(time.Minute); said.Count(want) == 0 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	writes.Close()
	if err := <-ended; err == nil || said.String() != want {
		t.Errorf("%v, and %q", err, said.String())
	}
}

// Who waits for a pipe that nobody writes to, or for standard input, can be told
// to stop.
func TestWaitingForManifestsEnds(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	silent, writes, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for path, want := range map[string]string{"-": "standard input", pipe: pipe} {
		ctx, cancel := context.WithCancel(t.Context())
		cmd := command()
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetIn(silent)
		cmd.SetArgs([]string{"view", "-f", path})
		ended := make(chan error, 1)
		go func() { ended <- cmd.ExecuteContext(ctx) }()
		cancel()
		select {
		case err := <-ended:
			if err == nil || errors.Is(err, run.ErrUsage) || !strings.Contains(err.Error(), "ended while it waited for "+want) {
				t.Errorf("-f %s: %v", path, err)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("-f %s: it waits on", path)
		}
	}
	writes.Close() // and with it what still reads
	if end, err := os.OpenFile(pipe, os.O_RDWR, 0); err == nil {
		defer end.Close()
	}
}
