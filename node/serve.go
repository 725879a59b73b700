package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node/hosts"
	"github.com/gridmesh/gridmesh/source"
)

// open opens every listener: one that is taken is found before anything on the
// node is changed. The group holds what was opened, also where it fails; the
// paths of sockets among that are returned.
func (a *Agent) open(g *run.Group) (sockets []string, err error) {
	for _, s := range a.servers() {
		listener, err := s.listen(s.address, a.log)
		if a.cfg.TakeOver && s.ofProxy && errors.Is(err, unix.EADDRINUSE) {
			g.Add(s.name, func(ctx context.Context) error { return a.serveLater(ctx, s) })
			continue
		}
		if err != nil {
			return sockets, err
		}
		g.AddListener(s.name, listener, s.serve)
		if listener.Addr().Network() == "unix" {
			sockets = append(sockets, s.address)
		}
	}
	return sockets, nil
}

// member is what runs beside the listeners until its context ends.
type member struct {
	name string
	run  func(ctx context.Context) error
}

// members are the loop and all that runs beside it.
func (a *Agent) members(l *loop) []member {
	list := []member{{"source", a.parts.Source.Run}, {"inspection", a.keepInspecting}}
	if a.parts.Cluster != nil {
		list = append(list,
			member{"events", a.parts.Cluster.Run}, member{"policies", a.followPolicies},
			member{"contact", a.keepContact}, member{"reports", a.askReports}, member{"eligibility", a.followLeaving})
	}
	if a.ports != nil {
		list = append(list, member{"health check ports", a.ports.Run})
	}
	if a.asksPods() {
		list = append(list, member{"own node", a.followPodCIDRs})
	}
	if a.parts.Envoy != nil {
		list = append(list, member{"envoy", a.followEnvoy})
	}
	if a.parts.EnvoyServes != nil {
		list = append(list, member{"envoy's absence", a.followAbsence})
	}
	if a.parts.KubeProxy != nil {
		list = append(list, member{"kube-proxy", a.followProxy})
	}
	if a.parts.Clients != nil {
		list = append(list, member{"clients", a.parts.Clients})
	}
	if a.parts.Supervise != nil {
		list = append(list, member{"supervision", func(ctx context.Context) error {
			return a.parts.Supervise(ctx, func() bool { return a.liveness(time.Now()).Healthy })
		}})
	}
	if a.cfg.HostsFile != "" {
		f := hosts.File{Path: a.cfg.HostsFile, Domain: a.cfg.ClusterDomain, Node: a.cfg.Node, Topology: a.cfg.Topology, Log: a.log}
		list = append(list, member{"hosts file", func(ctx context.Context) error { return f.Keep(ctx, &a.snapshot) }})
	}
	return append(list, member{"loop", l.run})
}

// server is one listener and what answers on it.
type server struct {
	name    string
	listen  func(address string, log *slog.Logger) (net.Listener, error)
	address string
	serve   func(ctx context.Context, l net.Listener) error
	ofProxy bool // kube-proxy has the same address, by default
}

// serveLater serves as soon as kube-proxy lets go of the address.
func (a *Agent) serveLater(ctx context.Context, s server) error {
	a.log.Info("somebody listens where kube-proxy does; waiting for the address", obs.KeyName, s.name)
	for pause(ctx, proxyEvery) {
		l, err := s.listen(s.address, a.log)
		if errors.Is(err, unix.EADDRINUSE) {
			continue
		}
		if err != nil {
			return err
		}
		stop := context.AfterFunc(ctx, func() { _ = l.Close() })
		defer stop()
		return s.serve(ctx, l)
	}
	return nil
}

// servers lists every listener. Only health may be open to others.
func (a *Agent) servers() []server {
	list := []server{
		{name: "xds server", listen: listenUnix, address: a.cfg.XDSSocket, serve: run.ServeGRPC(a.grpcServer())},
		{name: "feed server", listen: listenUnix, address: a.cfg.FeedSocket, serve: a.serveSnapshots},
		{name: "status", listen: listenUnix, address: a.cfg.StatusSocket, serve: run.ServeHTTP(a.statusMux())},
	}
	if a.cfg.HealthzAddress != "" {
		list = append(list, server{"healthz", run.ListenTCP, a.cfg.HealthzAddress, run.ServeHTTP(a.healthMux()), true})
	}
	if a.cfg.MetricsAddress != "" {
		list = append(list, server{"metrics", run.ListenTCP, a.cfg.MetricsAddress, run.ServeHTTP(a.metricsMux()), true})
	}
	return list
}

// listenUnix opens a socket. Whoever holds it already is another agent.
func listenUnix(path string, log *slog.Logger) (net.Listener, error) {
	l, err := run.ListenUnix(path, log)
	if errors.Is(err, run.ErrInUse) {
		return nil, fmt.Errorf("%w: %w", ErrUnfit, err)
	}
	return l, err
}

const (
	// maxRequest bounds a message from Envoy: it may name every cluster there is.
	maxRequest = 16 << 20
	// maxStreams and maxHeaders are of one connection: Envoy has one stream for all.
	maxStreams = 16
	maxHeaders = 16 << 10
	handshake  = 5 * time.Second
)

func (a *Agent) grpcServer() *grpc.Server {
	server := grpc.NewServer(
		// Envoy's keepalive pings would otherwise count as abuse.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second}),
		grpc.MaxRecvMsgSize(maxRequest), grpc.MaxConcurrentStreams(maxStreams), grpc.MaxHeaderListSize(maxHeaders), grpc.ConnectionTimeout(handshake),
		grpc.ChainStreamInterceptor(a.tellOfStreams),
	)
	a.xds.Register(server)
	return server
}

// serveSnapshots feeds other processes of the node. How old what they are told is
// does not begin anew with this process.
func (a *Agent) serveSnapshots(ctx context.Context, l net.Listener) error {
	return source.Serve(ctx, l, &a.snapshot, a.knownContact)
}

func (a *Agent) statusMux() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", a.serveStatus)
	return mux
}

func (a *Agent) healthMux() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", a.serveEligible)
	mux.HandleFunc("GET /readyz", a.serveHealth)
	mux.HandleFunc("GET /livez", a.serveLiveness)
	return mux
}

func (a *Agent) metricsMux() http.Handler {
	mux := run.MetricsMux(a.parts.Registry)
	mux.HandleFunc("GET /healthz", a.serveEligible)
	mux.HandleFunc("GET /proxyMode", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, a.cfg.ProxyMode) })
	return mux
}
