package node

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/gridmesh/gridmesh/capture"
	"github.com/gridmesh/gridmesh/convert"
	"github.com/gridmesh/gridmesh/node/envoy"
	"github.com/gridmesh/gridmesh/node/report"
	"github.com/gridmesh/gridmesh/topology"
	"github.com/gridmesh/gridmesh/xds"
	"github.com/gridmesh/gridmesh/xds/render"
)

// Parts is what an agent is made of.
type Parts struct {
	Log *slog.Logger
	// Registry takes the agent's metrics and is what /metrics shows.
	Registry *prometheus.Registry
	Source   Source
	Capture  Capture
	// XDS makes the server of the local Envoy. It calls requested with the
	// clusters that Envoy asks for by name, and refused with each resource
	// that Envoy refuses, once; neither blocks.
	XDS func(requested func(clusters []string), refused func(xds.Nack)) XDS
	// LockNetwork keeps a second agent from this network namespace, with
	// whatever state directory and sockets, until unlock; nil where nothing
	// does. That it is locked already is ErrUnfit.
	LockNetwork func() (unlock func(), err error)
	// Inspect looks for what cannot live beside the capture, as Capture's Inspector
	// does. It is called beside the loop.
	Inspect func() ([]capture.Finding, error)
	// Networks lists what of the host has addresses in common with ranges, as
	// capture.Networks does. It is called beside the loop; nil where the host
	// has nothing.
	Networks func(ranges []netip.Prefix) ([]capture.Network, error)
	// WatchLinks fills a one-slot channel when RefreshBridges or Repair may
	// have something to do, and closes it after the end of ctx, or where it can
	// tell nothing any more. After that, and an error, it is called again.
	WatchLinks func(ctx context.Context) (<-chan struct{}, error)
	// Clients bounds the connections of each client, beside the loop, until
	// ctx ends; nil where nothing does.
	Clients func(ctx context.Context) error
	// Supervise runs from the moment that the guard is in force, until ctx ends:
	// it tells others that the agent has begun, and while it is alive. nil where
	// nobody wants to know.
	Supervise func(ctx context.Context, alive func() bool) error
	// Envoy is asked beside the loop; nil where it is not asked anything.
	Envoy envoy.Admin
	// EnvoyServes asks whether Envoy takes new connections, beside the loop; an
	// error says why not, and one that hangs is one by the end of ctx. ErrNotKnown is
	// where it cannot be asked. nil where there is no kernel path to take them instead.
	EnvoyServes func(ctx context.Context) error
	// KubeProxy is looked at beside the loop, and what is left of it removed; nil where the
	// agent does not take over from it.
	KubeProxy KubeProxy
	// PodCIDRs are those of a node where there is no API server, by the Source's
	// newest snapshot or a newer one; nil for not at all. It is asked with each.
	PodCIDRs func(node string) []netip.Prefix
	// Remember has the Source begin with what it kept in a file, and keep it there as long as it may; nil
	// where nothing is. It is called before the Source runs.
	Remember func(path string, may func() bool, took func(error))
	// Cluster is the API server; nil where there is none.
	Cluster Cluster
	// Usable reports whether what was given to find the Source by could ever be used since the
	// start, and why it cannot be as it is now; nil where that is known at the start.
	Usable func() (ever bool, fault error)
}

// Source is where snapshots come from.
type Source interface {
	// Run follows the source until ctx ends.
	Run(ctx context.Context) error
	// Get returns the newest snapshot, false before the first.
	Get() (*topology.Snapshot, bool)
	// Wake returns a one-slot channel that is filled with every snapshot, until Forget.
	Wake() <-chan struct{}
	Forget(wake <-chan struct{})
	// LastContact is when the source was last known to be alive; zero for never.
	LastContact() time.Time
}

// Capture keeps the kernel in line with views. It has one owner.
type Capture interface {
	Rules
	Upkeep
	// Earlier reads what a run before left in force. It changes nothing.
	Earlier() (capture.Earlier, error)
	// Found reports whether rules of a run before were in force at Install.
	Found() bool
	// Pods names the kind of pod network: "bridged (cni0)" or "routed".
	Pods() string
	// IPv6 reports whether the node has IPv6, from Install on.
	IPv6() bool
	// CloseStale closes the connections to endpoints that access denies, and
	// returns how many.
	CloseStale(access func(frontend, endpoint netip.AddrPort) topology.Access) (int, error)
}

// Rules is what decides over packets.
type Rules interface {
	// SetServiceCIDRs takes the ranges to be guarded besides those of Install and of
	// views, in place of those that it was made with. It is called before Install, or never.
	SetServiceCIDRs(list []netip.Prefix) error
	// SetPodCIDRs takes the ranges of this node's pods. Before Install it
	// writes nothing; afterwards the rules follow at once.
	SetPodCIDRs(list []netip.Prefix) error
	// RememberIPs takes by which addresses a run before knew the node, and SayIPs those that its
	// Node has now: where node ports are served, by the next Repair once installed. IPs are what
	// is known. Without a kernel path they do nothing.
	RememberIPs(before capture.IPs)
	SayIPs(now []netip.Addr)
	IPs() capture.IPs
	// Install puts the guard over the given ranges in force. What a run
	// before left in force stays until the first Extend; what it knew of pods
	// until their ranges are known, or Repair writes the rules anew without.
	Install(guard []netip.Prefix) error
	// EnvoyAbsent says whether new connections take the kernel path although
	// Envoy serves their frontends. Open ones stay where they are. Where there is
	// no kernel path it does nothing; where it fails Repair does it.
	EnvoyAbsent(absent bool) error
	// Retract takes the next view and removes what it no longer serves. A
	// provisional view only adds. The kernel path, where there is one, follows
	// before that; where it does not, nothing is taken from Envoy.
	Retract(v *topology.View, provisional bool) error
	// Handed are the frontends that Extend hands to Envoy and that it was not handed before, and
	// all where that is not known; nil where the view is provisional.
	Handed() []topology.Frontend
	// Extend adds what the view of the last Retract serves more.
	Extend() error
	// Remove leaves no trace of Install on the node.
	Remove() error
}

// Upkeep keeps the rules in force on a node that others change too.
type Upkeep interface {
	// Repair puts back what somebody else removed, and writes what is due, and
	// reports whether it had to.
	Repair() (bool, error)
	// Due reports whether the next Repair writes for a reason of our own: rules
	// of a run before are in force as they were found, or a write has failed.
	Due() bool
	// RefreshBridges follows the bridges of the pod network and reports
	// whether they changed, also where following them failed. Repair does it
	// too.
	RefreshBridges() (bool, error)
	// Tune sets what serves better with it and works without.
	Tune() error
}

// XDS serves catalogs to the local Envoy.
type XDS interface {
	Register(g *grpc.Server)
	// Update makes cat the current catalog. Envoy is answered from the first on.
	Update(cat *render.Catalog, changed render.Changed)
	// Await waits until an Envoy is connected and each has answered what it was told of
	// clusters that it holds, no longer than within, and reports whether that is so.
	Await(clusters []string, within time.Duration) bool
	// Streams returns the connected Envoys.
	Streams() []xds.Stream
	// Nacks returns what Envoy refuses at the moment.
	Nacks() []xds.Nack
}

// Cluster is the API server, as far as a node asks it anything but snapshots.
type Cluster interface {
	Events
	// OwnNode returns what is to be known of a node's Node. It waits a few seconds at most.
	OwnNode(ctx context.Context, node string) (convert.OwnNode, error)
	// Servers are the addresses from which the API server answered since this was asked last, a few at most.
	Servers() []netip.Addr
	// FollowLeaving tells, until ctx ends, whether a Node is about to go: first when that is
	// known, and then whenever it may be another. It does not tell of one that is gone.
	FollowLeaving(ctx context.Context, node string, tell func(leaving bool)) error
	// NetworkPolicy returns the namespace and name of one, "" where there is none, and the
	// version of the answer. It waits a few seconds at most.
	NetworkPolicy(ctx context.Context) (name, version string, err error)
	// AwaitNetworkPolicy waits until one is made after that version, and returns its name;
	// "" when none was made in the time. An error means that it cannot tell.
	AwaitNetworkPolicy(ctx context.Context, version string, most time.Duration) (string, error)
	// Reachable asks for next to nothing; nil means that the API server answers.
	// It waits a few seconds at most.
	Reachable(ctx context.Context) error
	// NodeReport returns a number that grows with every report of a node's kubelet
	// to the API server. first is what the first question of a row was answered, and
	// 0 for that one itself: its answer is how it is now, later ones may be from a
	// memory that is behind. It waits a few seconds at most.
	NodeReport(ctx context.Context, node string, first uint64) (uint64, error)
	// Unheard returns what the API server, since a time, does not say of what endpoints there are and
	// where: the watches without a list or a word since, or lately, and those that fail.
	Unheard(since time.Time) []string
	// Silent returns the watches that stay open and say nothing.
	Silent() []string
	// APIServer is how the API server answers.
	APIServer() report.APIServer
}

// Events writes Events about this agent's own Node.
type Events interface {
	// Run writes what Warn queued until ctx ends.
	Run(ctx context.Context) error
	// Warn queues a warning; it never blocks.
	Warn(reason, message string)
	// WarnNow writes a warning now; it waits a few seconds at most.
	WarnNow(ctx context.Context, reason, message string)
}
