package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gridmesh/gridmesh/node/nodetest"
	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/xds"
)

// sockets gives a rig listeners of its own.
func (r *rig) sockets(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "node") // t.TempDir may be too long for a socket
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r.cfg.XDSSocket, r.cfg.StatusSocket, r.cfg.FeedSocket = filepath.Join(dir, "xds"), filepath.Join(dir, "status"), filepath.Join(dir, "feed")
	r.cfg.HealthzAddress, r.cfg.MetricsAddress = "127.0.0.1:0", "127.0.0.1:0"
}

// run runs the whole agent, with the server that p makes.
func (r *rig) run(t *testing.T, p Parts) (stop func() error) {
	t.Helper()
	var err error
	if r.agent, err = New(r.cfg, p); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.agent.Run(ctx) }()
	return func() error { cancel(); return <-ended }
}

// The agent with its real listeners and the real server for Envoy: what the
// source says reaches Envoy, the status, the health and other processes.
func TestRunServesEverybody(t *testing.T) {
	r := newRig(t)
	r.sockets(t)
	r.api = &nodetest.API{Pods: prefixes("10.244.1.0/24")}
	p := r.parts()
	p.XDS = func(requested func([]string), refused func(xds.Nack)) XDS {
		return xds.New(xds.Config{Log: p.Log, Metrics: xds.NewMetrics(p.Registry), Asked: requested, Refused: refused})
	}
	stop := r.run(t, p)
	r.source.Publish(webOnly().Snapshot())
	ctx := t.Context()
	var got *report.Report
	eventually(t, "the status says live, with pods", func() bool {
		var err error
		got, err = report.Ask(ctx, r.cfg.StatusSocket)
		return err == nil && got.Source == report.Live && got.Pods == "routed"
	})
	if got.Services != 1 || got.APIServer == nil {
		t.Errorf("the status says %+v", got)
	}
	for _, socket := range []string{r.cfg.XDSSocket, r.cfg.StatusSocket, r.cfg.FeedSocket} {
		if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o660 {
			t.Errorf("%s: %v, %v", socket, info.Mode(), err)
		}
	}
	envoy := newADSClient(t, r.cfg.XDSSocket)
	envoy.Connect("1.40.0")
	eventually(t, "Envoy holds web", func() bool { got, ok := envoy.Holds(webCluster); return ok && len(got) == 1 })
	envoy.Disconnect()

	other := source.NewSocket(r.cfg.FeedSocket)
	otherCtx, otherStop := context.WithCancel(ctx)
	otherEnded := make(chan error, 1)
	go func() { otherEnded <- other.Run(otherCtx) }()
	eventually(t, "another process is fed", func() bool {
		snap, ok := other.Get()
		return ok && snap.Services.Len() == 1 && !snap.Partial
	})
	otherStop()
	must(t, <-otherEnded)

	if err := stop(); err != nil {
		t.Errorf("stopped: %v", err)
	}
	if rules, there := r.kernel.InForce(); !there || len(rules.Serve) != 1 {
		t.Error("the rules are gone after the stop")
	}
	if _, err := report.Ask(ctx, r.cfg.StatusSocket); err == nil || !strings.Contains(err.Error(), "no agent answers on") {
		t.Errorf("status without an agent: %v", err)
	}
}

// Sockets that are removed, as by a rule of tmpfiles, come again: for an Envoy that was
// restarted, the status and other processes; the Envoy that is connected stays.
func TestSocketsThatAreRemovedComeAgain(t *testing.T) {
	r := newRig(t)
	r.sockets(t)
	p := r.parts()
	p.XDS = func(requested func([]string), refused func(xds.Nack)) XDS {
		return xds.New(xds.Config{Log: p.Log, Metrics: xds.NewMetrics(p.Registry), Asked: requested, Refused: refused})
	}
	stop := r.run(t, p)
	defer func() { must(t, stop()) }()
	r.source.Publish(webOnly().Snapshot())
	first := newADSClient(t, r.cfg.XDSSocket)
	eventually(t, "the agent listens", func() bool { _, err := os.Stat(r.cfg.StatusSocket); return err == nil })
	first.Connect("1.40.0")
	eventually(t, "Envoy holds web", func() bool { got, ok := first.Holds(webCluster); return ok && len(got) == 1 })
	for _, socket := range []string{r.cfg.XDSSocket, r.cfg.FeedSocket, r.cfg.StatusSocket} {
		must(t, os.Remove(socket))
	}
	for _, socket := range []string{r.cfg.XDSSocket, r.cfg.FeedSocket, r.cfg.StatusSocket} {
		eventually(t, socket+" is there again", func() bool {
			info, err := os.Stat(socket)
			return err == nil && info.Mode().Perm() == 0o660
		})
	}
	second := newADSClient(t, r.cfg.XDSSocket)
	second.Connect("1.40.0")
	eventually(t, "the next Envoy holds web", func() bool { got, ok := second.Holds(webCluster); return ok && len(got) == 1 })
	second.Disconnect()
	if _, err := report.Ask(t.Context(), r.cfg.StatusSocket); err != nil {
		t.Error(err)
	}
	r.source.Publish(webAndOther().Snapshot())
	eventually(t, "the first Envoy hears of other", func() bool { got, ok := first.Holds(otherCluster); return ok && len(got) == 1 })
	first.Disconnect()
}

func TestHealthAndMetrics(t *testing.T) {
	r := newRig(t)
	r.sockets(t)
	stop := r.run(t, r.parts())
	defer func() { must(t, stop()) }()
	get := func(mux http.Handler, path string) (code int, body string) {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	if code, body := get(r.agent.healthMux(), "/healthz"); code != http.StatusServiceUnavailable || !strings.Contains(body, `"healthy":false`) || !strings.Contains(body, notYet) {
		t.Errorf("before the first snapshot: %d %s", code, body)
	}
	if code, body := get(r.agent.healthMux(), "/livez"); code != http.StatusOK {
		t.Errorf("an agent without a snapshot would be killed: %d %s", code, body)
	}
	r.source.Publish(webOnly().Snapshot())
	eventually(t, "it waits for an Envoy alone", func() bool {
		code, body := get(r.agent.healthMux(), "/healthz")
		return code == http.StatusServiceUnavailable && strings.Contains(body, noEnvoy)
	})
	r.xds.Connect("1.40.0")
	for _, path := range []string{"/healthz", "/readyz", "/livez"} {
		if code, body := get(r.agent.healthMux(), path); code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	_, body := get(r.agent.metricsMux(), "/healthz")
	var h map[string]any
	if err := json.Unmarshal([]byte(body), &h); err != nil || h["healthy"] != true || h["nodeEligible"] != true || h["source"] != report.Live || h["lastUpdated"] == "" || h["currentTime"] == "" {
		t.Errorf("%v in %s", err, body)
	}
	if _, body := get(r.agent.metricsMux(), "/proxyMode"); body != "envoy" {
		t.Errorf("proxyMode is %q", body)
	}
	_, body = get(r.agent.metricsMux(), "/metrics")
	for _, name := range []string{
		"gridmesh_held_endpoints 0",
		"kubeproxy_sync_proxy_rules_duration_seconds_count 1", "kubeproxy_sync_proxy_rules_last_timestamp_seconds", "kubeproxy_network_programming_duration_seconds",
		"gridmesh_capture_failures_total 0", "gridmesh_capture_repairs_total 0", "gridmesh_moved_connections_closed_total 0",
		"gridmesh_problems 0", "gridmesh_state_failures_total 0", "gridmesh_state_written_bytes_total",
	} {
		if !strings.Contains(body, name) {
			t.Errorf("/metrics lacks %s", name)
		}
	}
}

// A second agent on the node is told so, whatever of it meets the first.
func TestASecondAgentIsRefused(t *testing.T) {
	first := newRig(t)
	first.sockets(t)
	stop := first.run(t, first.parts())
	defer func() { must(t, stop()) }()
	first.source.Publish(webOnly().Snapshot())
	eventually(t, "the first serves", func() bool { _, err := report.Ask(t.Context(), first.cfg.StatusSocket); return err == nil })

	second := newRig(t)
	second.cfg = first.cfg
	err := second.run(t, second.parts())()
	if !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), "another gridmesh-agent, or a cleanup, runs with --state-dir "+first.cfg.StateDir) || !strings.Contains(err.Error(), "stop it first") {
		t.Errorf("the same state directory: %v", err)
	}
	if _, there := second.kernel.InForce(); there {
		t.Error("rules were written beside another agent")
	}
	second.cfg.StateDir = t.TempDir()
	err = second.run(t, second.parts())()
	if !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), "somebody listens on "+first.cfg.XDSSocket+" already") {
		t.Errorf("the same sockets: %v", err)
	}
	if _, there := second.kernel.InForce(); there {
		t.Error("rules were written beside the sockets of another agent")
	}
	if _, err := Lock(first.cfg.StateDir); !errors.Is(err, ErrUnfit) {
		t.Errorf("a cleanup beside a running agent: %v", err)
	}
}

// A port that is taken ends the start before anything is written, is no verdict
// on the node, and leaves no listener behind.
func TestAPortThatIsTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	r := newRig(t)
	r.sockets(t)
	r.cfg.MetricsAddress = taken.Addr().String()
	stop := r.run(t, r.parts())
	if err := stop(); err == nil || errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), r.cfg.MetricsAddress) {
		t.Errorf("got %v", err)
	}
	if _, there := r.kernel.InForce(); there {
		t.Error("rules were written by a start that failed")
	}
	r.cfg.MetricsAddress = ""
	r.again()
	if err := r.run(t, r.parts())(); err != nil {
		t.Errorf("the next start: %v", err)
	}
}

// A second agent of the same network is refused before it writes a rule,
// whatever its directories are called; its ports are free again.
func TestTheNetworkIsLocked(t *testing.T) {
	r := newRig(t)
	r.sockets(t)
	p := r.parts()
	p.LockNetwork = func() (func(), error) { return nil, fmt.Errorf("%w: another agent serves this network", ErrUnfit) }
	if err := r.run(t, p)(); !errors.Is(err, ErrUnfit) {
		t.Errorf("got %v", err)
	}
	if conn, err := net.Dial("unix", r.cfg.XDSSocket); err == nil {
		conn.Close()
		t.Error("somebody still listens on the socket")
	}
	if _, there := r.kernel.InForce(); there {
		t.Error("rules were written")
	}
	unlocked := false
	r.again()
	p = r.parts()
	p.LockNetwork = func() (func(), error) { return func() { unlocked = true }, nil }
	must(t, r.run(t, p)())
	if !unlocked {
		t.Error("the network stays locked")
	}
}
