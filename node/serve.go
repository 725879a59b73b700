package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/capture/kubeproxy"
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
		if s.late != nil && a.proxyFound {
			g.Add(s.name, func(ctx context.Context) error { return a.serveLater(ctx, s) })
			continue
		}
		listener, err := s.listen(s.address, a.log)
		if s.late != nil && errors.Is(err, unix.EADDRINUSE) {
			g.Add(s.name, func(ctx context.Context) error { return a.serveLater(ctx, s) })
			continue
		}
		if s.waitsForDisk(err) {
			g.Add(s.name, func(ctx context.Context) error { return a.serveAgain(ctx, s, err) })
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
	if a.parts.Cluster != nil && a.cfg.DeadNodesFile != "" {
		list = append(list, member{"verdicts", a.followDead})
	}
	if a.ports != nil {
		list = append(list, member{"health check ports", a.ports.Run})
	}
	if a.asksPods() || a.parts.Cluster != nil {
		list = append(list, member{"own node", a.followOwnNode})
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
	late    *[]capture.Finding // what keeps it from an address that may be kube-proxy's; nil where it is not
	flag    string             // of a socket's path
	missing *[]capture.Finding // what keeps it from its socket; nil where it has none
}

// late is where it is said that a server waits; nil where kube-proxy has another port, for
// whoever has the address then is a mistake.
func (a *Agent) late(address string, to *[]capture.Finding) *[]capture.Finding {
	_, port, _ := net.SplitHostPort(address)
	if !a.cfg.TakeOver || !slices.ContainsFunc(kubeproxy.Ports, func(p uint16) bool { return port == strconv.Itoa(int(p)) }) {
		return nil
	}
	return to
}

// serveLater serves once the address is free and has been left to kube-proxy for long
// enough. It may be somebody else's, and so what it waits for is said.
func (a *Agent) serveLater(ctx context.Context, s server) error {
	a.log.Info("kube-proxy has the same address, if it runs; waiting for that", obs.KeyName, s.name)
	for {
		if now, _ := a.beside.Get(); !now.ports {
			l, err := s.listen(s.address, a.log)
			if err == nil {
				a.found.replace(s.late, nil)
				return run.ServeUntil(ctx, l, s.serve)
			}
			text := fmt.Sprintf("the agent's %s is not served yet, and tried again: %v: stop who has the address, a kube-proxy or another program, or give --%s-bind-address another", s.name, err, s.name)
			a.show(a.found.replace(s.late, []capture.Finding{{Kind: capture.KubeProxy, Text: text}}))
		}
		if !run.Pause(ctx, proxyEvery) {
			return nil
		}
	}
}

// servers lists every listener. Only health may be open to others.
func (a *Agent) servers() []server {
	list := []server{
		{name: "xds server", listen: listenUnix, address: a.cfg.XDSSocket, serve: run.ServeGRPC(a.grpcServer()), flag: "xds-socket", missing: &a.found.xdsSocket},
		{name: "feed server", listen: listenUnix, address: a.cfg.FeedSocket, serve: a.serveSnapshots, flag: "feed-socket", missing: &a.found.feedSocket},
		{name: "status", listen: listenUnix, address: a.cfg.StatusSocket, serve: run.ServeHTTP(a.statusMux()), flag: "status-socket", missing: &a.found.statusSocket},
	}
	if at := a.cfg.HealthzAddress; at != "" {
		list = append(list, server{name: "healthz", listen: run.ListenTCP, address: at, serve: run.ServeHTTP(a.healthMux()), late: a.late(at, &a.found.healthz)})
	}
	if at := a.cfg.MetricsAddress; at != "" {
		list = append(list, server{name: "metrics", listen: run.ListenTCP, address: at, serve: run.ServeHTTP(a.metricsMux()), late: a.late(at, &a.found.metrics)})
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
	mux.HandleFunc("GET /readyz", a.serveReady)
	mux.HandleFunc("GET /livez", a.serveLiveness)
	return mux
}

func (a *Agent) metricsMux() http.Handler {
	mux := run.MetricsMux(a.parts.Registry)
	mux.HandleFunc("GET /healthz", a.serveEligible)
	mux.HandleFunc("GET /proxyMode", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, a.cfg.ProxyMode) })
	return mux
}
