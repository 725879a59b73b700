package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
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
	var snapshots source.Snapshots
	snapshots.Publish(b.Build())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	l := listen("feed.sock")
	go func() { ended <- source.Serve(ctx, l, &snapshots, time.Now) }()
	t.Cleanup(func() { cancel(); <-ended })
	if node != "" {
		status := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"node": %q, "podCIDRs": ["10.244.7.0/24"]}`, node)
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
	if _, out, _ := gridmesh(t, "trace", "--socket", socket, "--from", "10.244.7.9", "--to", "192.0.2.1:80"); !strings.Contains(out, "verdict: pass") {
		t.Errorf("trace: %s", out)
	}
	code, _, log := gridmesh(t, "view", "--socket", agent(t, ""))
	if code != 1 || !strings.Contains(log, "the agent does not tell its node") || !strings.Contains(log, "--node may be edge-7, edge-8") {
		t.Errorf("an agent without a status: code %d: %s", code, log)
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
