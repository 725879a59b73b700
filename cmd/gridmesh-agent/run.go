package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/events"
	kubefeed "github.com/gridmesh/gridmesh/kube/feed"
	"github.com/gridmesh/gridmesh/source"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds"
	"github.com/gridmesh/gridmesh/xds/render"
)

// serveNode serves until ctx ends.
func serveNode(ctx context.Context, c *config, log *slog.Logger) error {
	unlock, err := lock(c.stateDir)
	if err != nil {
		return err
	}
	defer unlock()
	found, err := capture.Inspect()
	if err != nil {
		return err
	}
	if c.manifests == "" {
		kube.LogTo(log)
	}
	if err := c.findings(log, found); err != nil {
		c.tell(ctx, log, err)
		return fmt.Errorf("%w: %w", errUnfit, err)
	}
	st, err := source.ReadState(filepath.Join(c.stateDir, "state"))
	if err != nil {
		log.Error("starting without the last good state", "err", err)
	}
	a, err := newAgent(ctx, c, log, st, found)
	if err != nil {
		return err
	}
	return a.serve(ctx, st)
}

func newAgent(ctx context.Context, c *config, log *slog.Logger, st *source.State, found []capture.Finding) (*agent, error) {
	a := &agent{
		cfg: c, log: log, metrics: newMetrics(), found: found, asked: make(chan struct{}, 1),
		viewer:  topology.NewViewer(c.node, c.opts),
		catalog: render.NewCataloger(c.render, c.preloadMax),
		keeper:  source.NewKeeper(filepath.Join(c.stateDir, "state"), stateInterval),
	}
	for _, f := range found {
		a.metrics.findings.WithLabelValues(string(f.Kind)).Inc()
	}
	var err error
	if a.source, err = a.open(ctx, st); err != nil {
		return nil, err
	}
	for _, f := range found {
		a.warn(eventFinding, f.Text)
	}
	a.xds = xds.New(xds.Config{Log: log, Metrics: xds.NewMetrics(a.metrics.registry), Asked: a.asking, Refused: a.refused})
	if a.capture, err = capture.New(c.capture, c.host()); err != nil {
		return nil, err
	}
	guard := slices.Clone(c.capture.ServiceCIDRs)
	if st != nil {
		guard = append(guard, st.Snapshot.ServiceCIDRs...)
	}
	if err := a.capture.Install(uniquePrefixes(guard)); err != nil {
		return nil, err
	}
	if err := a.capture.Tune(); err != nil {
		log.Warn("a pod that dials an endpoint itself, from a port that Envoy used in its name within a minute, will wait a second", "err", err)
	}
	log.Info("guard in force", "cidrs", guard, "pods", a.capture.Pods())
	return a, nil
}

// open chooses the source.
func (a *agent) open(ctx context.Context, st *source.State) (feed, error) {
	if a.cfg.manifests != "" {
		return source.NewDir(a.cfg.manifests), nil
	}
	client, err := kube.Connect(a.cfg.kubeconfig, "gridmesh-agent/"+obs.Version(), kube.NodeRate())
	if err != nil {
		return nil, err
	}
	if ip, ok := client.HostIP(); ok && slices.ContainsFunc(a.cfg.capture.ServiceCIDRs, func(p netip.Prefix) bool { return p.Contains(ip) }) {
		return nil, fmt.Errorf("%w: the API server's address %s is a ClusterIP, which needs this agent to work; give its real address in the kubeconfig, or in KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT", run.ErrUsage, ip)
	}
	a.events = events.ForNode(client, a.cfg.node, a.log)
	a.later = append(a.later, a.events.Run)
	// With a last good state nothing waits for an API server that may be away.
	if a.podCIDRs(ctx, client, st); st == nil {
		if err := a.policies(ctx, client); err != nil {
			return nil, err
		}
	} else {
		a.later = append(a.later, func(ctx context.Context) error { return a.policies(ctx, client) })
	}
	a.api = kubefeed.New(client, a.log, kubefeed.NewMetrics(a.metrics.registry))
	return a.api, nil
}

// policies refuses a cluster with NetworkPolicies, which would be bypassed.
// An API server that does not answer does not keep a node from starting.
func (a *agent) policies(ctx context.Context, client *kube.Client) error {
	has, err := client.HasNetworkPolicy(ctx)
	if err != nil {
		a.log.Warn("could not ask for NetworkPolicies; if there are any they are bypassed on the same node (docs/limits.md)", "err", err)
		return nil
	}
	if !has {
		return nil
	}
	f := capture.Finding{Kind: capture.PolicyEngine, Text: "the cluster has NetworkPolicies: traffic through a ClusterIP to a pod on the same node bypasses them (docs/limits.md); start with --allow-policy-bypass to accept that"}
	a.foundMu.Lock()
	a.found = append(a.found, f)
	a.foundMu.Unlock()
	a.metrics.findings.WithLabelValues(string(f.Kind)).Inc()
	if err := a.cfg.findings(a.log, []capture.Finding{f}); err != nil {
		a.events.WarnNow(ctx, eventRefuses, f.Text)
		return fmt.Errorf("%w: %w", errUnfit, err)
	}
	return nil
}

// podCIDRs fills the pod CIDRs: the flag's, else the Node's, else those of the
// last good state.
func (a *agent) podCIDRs(ctx context.Context, client *kube.Client, st *source.State) {
	if len(a.cfg.capture.PodCIDRs) > 0 {
		return
	}
	var list []netip.Prefix
	var err error
	if st != nil {
		list = st.PodCIDRs // a Node's podCIDRs never change
	}
	if len(list) == 0 {
		list, err = client.PodCIDRs(ctx, a.cfg.node)
	}
	if len(list) == 0 {
		a.log.Warn("no pod CIDR is known: pods cannot be told from others and their addresses are not kept", "err", err)
	}
	a.cfg.capture.PodCIDRs = list
}

// serve runs the loop and every listener, and returns when all have ended.
func (a *agent) serve(ctx context.Context, st *source.State) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l, err := listenUnix(a.cfg.xdsSocket)
	if err != nil {
		return err
	}
	server := grpc.NewServer(
		// Envoy's keepalive pings would otherwise count as abuse.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second}),
		grpc.MaxRecvMsgSize(16<<20),
	)
	a.xds.Register(server)

	var wg sync.WaitGroup
	start := func(what string, f func() error) {
		wg.Go(func() {
			if err := f(); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", what, err))
			}
		})
	}
	for _, f := range a.later {
		start("check", func() error { return f(ctx) })
	}
	start("source", func() error { return a.source.Run(ctx) })
	start("xds server", func() error { return server.Serve(l) })
	start("feed server", func() error {
		l, err := listenUnix(a.cfg.feedSocket)
		if err != nil {
			return err
		}
		return source.Serve(ctx, l, &a.out, a.source.LastContact)
	})
	if a.cfg.hostsFile != "" {
		start("hosts file", func() error { return a.keepHosts(ctx) })
	}
	for _, h := range a.httpServers() {
		l, err := h.listen()
		if err != nil {
			cancel(err)
			break
		}
		start(h.name, func() error { return run.ServeHTTP(h.handler)(ctx, l) })
	}
	start("loop", func() error { a.loop(ctx, st); return nil })
	<-ctx.Done()
	server.Stop()
	wg.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	a.log.Info("stopped; the rules stay in force until gridmesh-agent cleanup")
	return nil
}

// lock keeps a second agent from this node.
func lock(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the state directory: %w", err)
	}
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%w: another gridmesh-agent runs with --state-dir %s (%s is locked); stop it first", errUnfit, dir, path)
	}
	return func() { _ = f.Close() }, nil
}

// listenUnix opens a socket for the owner and the group. What is left of a
// process that is gone is replaced; anything else at the path is refused.
func listenUnix(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	info, err := os.Lstat(path)
	switch {
	case err == nil && info.Mode()&os.ModeSocket == 0:
		return nil, fmt.Errorf("listen on %s: something that is no socket is there; remove it or choose another path", path)
	case err == nil:
		if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
			_ = conn.Close()
			return nil, fmt.Errorf("%w: somebody listens on %s already; stop it or choose another path", errUnfit, path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("listen on %s: %w", path, err)
		}
	}
	old := syscall.Umask(0o117)
	l, err := net.Listen("unix", path)
	syscall.Umask(old)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	// Not unlinked on close: a successor may have replaced it already.
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	return l, nil
}

func uniquePrefixes(list []netip.Prefix) []netip.Prefix {
	slices.SortFunc(list, topology.ComparePrefix)
	return slices.Compact(list)
}

func printBootstrap(w io.Writer, c *config) error {
	if err := c.complete(false); err != nil {
		return err
	}
	out, err := xds.Bootstrap{
		Node: c.node, Socket: c.xdsSocket, AdminSocket: c.adminSocket,
		HeapBytes: c.envoyHeapMiB << 20, Mark: c.capture.Own(),
	}.YAML()
	if err != nil {
		return err
	}
	if c.output != "" {
		return atomicfile.Write(c.output, out)
	}
	_, err = w.Write(out)
	return err
}

func cleanup(w io.Writer, c *config) error {
	if err := c.complete(false); err != nil {
		return err
	}
	unlock, err := lock(c.stateDir)
	if err != nil {
		return err
	}
	defer unlock()
	if err := capture.Cleanup(c.capture, c.host()); err != nil {
		return err
	}
	fmt.Fprintln(w, "gridmesh's rules, routes and sysctls are gone from this node; Services are no longer served here")
	return nil
}
