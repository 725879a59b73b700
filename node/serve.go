package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/source"
)

// serve opens every listener and gathers all that runs beside the loop. The
// group holds what was opened, also where it fails.
func (a *Agent) serve(l *loop) (*run.Group, error) {
	g := &run.Group{}
	g.Add("source", a.parts.Source.Run)
	if a.parts.Cluster != nil {
		g.Add("events", a.parts.Cluster.Run)
		if l.restored != nil { // else start has asked
			g.AddTask("check", a.checkPolicies)
		}
	}
	if a.cfg.HostsFile != "" {
		g.Add("hosts file", a.keepHosts)
	}
	g.Add("loop", l.run)
	for _, s := range a.servers() {
		listener, err := s.listen(s.address)
		if err != nil {
			return g, err
		}
		g.AddListener(s.name, listener, s.serve)
	}
	return g, nil
}

// server is one listener and what answers on it.
type server struct {
	name    string
	listen  func(address string) (net.Listener, error)
	address string
	serve   func(ctx context.Context, l net.Listener) error
}

// servers lists every listener. Only health may be open to others.
func (a *Agent) servers() []server {
	list := []server{
		{"xds server", listenUnix, a.cfg.XDSSocket, run.ServeGRPC(a.grpcServer())},
		{"feed server", listenUnix, a.cfg.FeedSocket, a.serveSnapshots},
		{"status", listenUnix, a.cfg.StatusSocket, run.ServeHTTP(a.statusMux())},
	}
	if a.cfg.HealthzAddress != "" {
		list = append(list, server{"healthz", run.ListenTCP, a.cfg.HealthzAddress, run.ServeHTTP(a.healthMux())})
	}
	if a.cfg.MetricsAddress != "" {
		list = append(list, server{"metrics", run.ListenTCP, a.cfg.MetricsAddress, run.ServeHTTP(a.metricsMux())})
	}
	return list
}

// listenUnix opens a socket. Whoever holds it already is another agent.
func listenUnix(path string) (net.Listener, error) {
	l, err := run.ListenUnix(path)
	if errors.Is(err, run.ErrInUse) {
		return nil, fmt.Errorf("%w: %w", ErrUnfit, err)
	}
	return l, err
}

// maxRequest bounds a message from Envoy: it may name every cluster there is.
const maxRequest = 16 << 20

func (a *Agent) grpcServer() *grpc.Server {
	server := grpc.NewServer(
		// Envoy's keepalive pings would otherwise count as abuse.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second}),
		grpc.MaxRecvMsgSize(maxRequest),
	)
	a.xds.Register(server)
	return server
}

// serveSnapshots feeds other processes of the node.
func (a *Agent) serveSnapshots(ctx context.Context, l net.Listener) error {
	return source.Serve(ctx, l, &a.snapshot, a.parts.Source.LastContact)
}

func (a *Agent) statusMux() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", a.serveStatus)
	return mux
}

func (a *Agent) healthMux() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", a.serveHealth)
	mux.HandleFunc("GET /livez", a.serveHealth)
	return mux
}

func (a *Agent) metricsMux() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.parts.Registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", a.serveHealth)
	mux.HandleFunc("GET /proxyMode", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, a.cfg.ProxyMode) })
	return mux
}
