package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/internal/obs"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/kube"
	"github.com/gridmesh/gridmesh/kube/events"
	"github.com/gridmesh/gridmesh/kube/feed"
	"github.com/gridmesh/gridmesh/node"
	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/source"
)

// takeFrom adds where snapshots come from, an API server or manifests; nothing is asked of it
// yet. Where it cannot be told, as after a power cut that left its file empty, a node that has
// served goes on with what it knows (goesOn), and looks again and again.
func (c *config) takeFrom(parts *node.Parts, log *slog.Logger, earlier func() (capture.Earlier, error)) error {
	var err error
	if c.manifests != "" {
		err = c.readManifests(parts)
	} else {
		err = c.connect(parts, log)
	}
	switch {
	case err == nil:
	case parts.Source == nil || !goesOn(err, c.node.StateDir, earlier):
		return err
	default:
		log.Error("nothing says what is to be served; until that is mended, which is looked for again and again, this node serves what it knows", obs.KeyErr, err)
	}
	return nil
}

func (c *config) readManifests(parts *node.Parts) error {
	dir := source.NewDir(c.manifests)
	parts.Source, parts.PodCIDRs, parts.Usable, parts.Remember = dir, dir.PodCIDRs, dir.Usable, dir.Remember
	err := readable(c.manifests)
	dir.Awaits = err != nil
	return err
}

func (c *config) connect(parts *node.Parts, log *slog.Logger) error {
	kube.LogTo(log)
	client, err := kube.Late(kube.Options{
		Kubeconfig: c.kubeconfig, Agent: "gridmesh-agent/" + obs.Version(), Rate: kube.NodeRate(), Control: capture.OwnSockets(c.capture),
		Check: func(ip netip.Addr) error { return realAddress(ip, c.capture.ServiceCIDRs) },
	})
	if client == nil {
		return err
	}
	snapshots := feed.New(client, log, feed.NewMetrics(parts.Registry))
	parts.Source, parts.Usable, parts.Cluster = snapshots, client.Usable, cluster{client, events.ForNode(client, c.node.Node, log), snapshots}
	return err
}

// goesOn reports whether a node does without: a run before left a last good state, or rules in
// force, and where neither can be looked for it may have. Who gave what cannot be right is told
// by an agent that ends, as long as those rules serve meanwhile: a rollout stops there.
func goesOn(fault error, stateDir string, earlier func() (capture.Earlier, error)) bool {
	before, err := earlier()
	if inForce := err != nil || before.Rules; inForce {
		return !errors.Is(fault, run.ErrUsage)
	}
	return source.MayHaveState(filepath.Join(stateDir, source.StateFile))
}

// realAddress refuses an API server within the ranges of ClusterIPs.
func realAddress(ip netip.Addr, ranges []netip.Prefix) error {
	in := slices.IndexFunc(ranges, func(p netip.Prefix) bool { return p.Contains(ip) })
	if in < 0 {
		return nil
	}
	return fmt.Errorf("%w: the API server's address %s is in --service-cidr %s; either it is a ClusterIP, which needs this agent to work: give its real address in the kubeconfig, or in KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT; or that range is not the cluster's", run.ErrUsage, ip, ranges[in])
}

// cluster is the API server as the agent asks it.
type cluster struct {
	*kube.Client
	*events.Node
	feed *feed.Feed
}

// Unheard implements node.Cluster.
func (c cluster) Unheard(since time.Time) []string { return c.feed.Unheard(since) }

// Silent implements node.Cluster.
func (c cluster) Silent() []string { return c.feed.Silent() }

// APIServer implements node.Cluster.
func (c cluster) APIServer() report.APIServer {
	h := c.feed.Health()
	return report.APIServer{LastContact: h.LastContact, Error: h.Err, Since: h.Since, Refused: h.Refused, Held: h.Held}
}
