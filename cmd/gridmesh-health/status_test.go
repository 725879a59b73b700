package main

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/gridmesh/gridmesh/health"
	"github.com/gridmesh/gridmesh/health/check"
	"github.com/gridmesh/gridmesh/health/vote"
	"github.com/gridmesh/gridmesh/internal/run"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// nobody is a node that checks none and writes nothing.
type nobody struct{}

func (nobody) Round(context.Context, []check.Target) map[string]bool { return nil }
func (nobody) Annotate(context.Context, health.Verdict) error        { return nil }

// called runs the program, and returns what it said and its exit code.
func called(args ...string) (code int, out, log string) {
	var stdout, stderr bytes.Buffer
	cmd := command()
	cmd.SetArgs(args)
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	code = run.Main(cmd, nil)
	return code, stdout.String(), stderr.String()
}

// A daemon tells its status over a socket that is its owner's alone.
func TestStatus(t *testing.T) {
	d, err := health.New(health.Config{Vote: vote.Default("edge-7"), Log: slog.New(slog.DiscardHandler)}, nobody{}, nobody{}, health.NewMetrics(prometheus.NewRegistry()))
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "run", "health.sock")
	var g run.Group
	g.Add("vote", d.Run)
	serveStatus(&g, socket, d, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	d.SetUnit(ctx, health.Unit{Name: "shop-7", Members: []health.Member{{Name: "edge-7", UID: "1"}}})
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	for format, want := range map[string]string{
		"table": "unit      shop-7, 1 nodes, view ", "json": `"unit": "shop-7"`, "yaml": "unit: shop-7\n",
	} {
		if code, out, log := called("status", "--status-socket", socket, "-o", format); code != 0 || log != "" || !strings.Contains(out, want) {
			t.Errorf("-o %s: code %d\n%s%s", format, code, out, log)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if code, _, log := called("status", "--status-socket", socket); code != 1 || !strings.Contains(log, "no daemon answers on "+socket+", though one did") {
		t.Errorf("code %d: %s", code, log)
	}
}

// Who cannot be asked is said, and what cannot be meant.
func TestNoStatus(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none.sock")
	for _, tt := range []struct {
		code int
		want string
		args []string
	}{
		{1, "no daemon answers on " + none + ", which is not there: is gridmesh-health running on this node?", []string{"--status-socket", none}},
		{2, "-o \"name\" is not known; use table, json or yaml", []string{"-o", "name"}},
		{2, "--status-socket is empty", []string{"--status-socket", ""}},
	} {
		if code, out, log := called(append([]string{"status"}, tt.args...)...); code != tt.code || out != "" || !strings.Contains(log, tt.want) {
			t.Errorf("%v: code %d\n%s%s", tt.args, code, out, log)
		}
	}
}

// Where there can be no socket the daemon votes without, and says so.
func TestVotesWithoutASocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var said bytes.Buffer
	var g run.Group
	g.AddTask("other", func(context.Context) error { return nil })
	serveStatus(&g, socket, nil, slog.New(slog.NewTextHandler(&said, nil)))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := g.Run(ctx); err != nil || !strings.Contains(said.String(), "the node votes without") {
		t.Errorf("%v: %s", err, said.String())
	}
}
