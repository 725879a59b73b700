package topology

import (
	"net/netip"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/internal/table"
)

// Viewpoint is from where one looks.
type Viewpoint struct {
	Name   string
	Known  bool              // the node is in the snapshot
	Values map[string]string // topology keys in use -> this node's value, absent where it has none or an empty one
	Zone   string            // of topology.kubernetes.io/zone, for hints
}

// View is what one viewpoint may reach, and in which order.
type View struct {
	Viewpoint Viewpoint
	KeysInUse []string // sorted
	Services  *table.Map[ObjectKey, *ServiceView]
	// ServiceCIDRs are the ranges whose packets must not leave unserved.
	ServiceCIDRs []netip.Prefix
	// Problems that belong to no Service.
	Problems []Problem
}

// ServiceView is one Service as seen from the viewpoint.
type ServiceView struct {
	Key       ObjectKey
	Service   *Service
	Keys      Keys           // as the reading has them
	Frontends []FrontendView // by address, port, protocol
	// Members are the endpoints that the name of a headless Service stands
	// for: the ready ones of its first tier that has any. By address, each once.
	Members []Member
	// Pods are the ready endpoints of a headless Service, of one with units and of
	// one with keys, in the order of its slices. Named has those of all Services.
	Pods []Pod
	// Waiting are this unit's pods that are not ready and have an ordinal all the
	// same, with OrdinalsAll; and no ready one has it.
	Waiting []Pod
	// UnitKey is the label whose values are the Service's units; "" for none.
	UnitKey string
	// ClusterIPs are the Service's, without those that are another's already.
	ClusterIPs []netip.Addr
	Near       Rank // of the nearest endpoint of any frontend of a ClusterIP that is served
	// Datapath is what the node chose, or the Service instead.
	Datapath Datapath
	// Affinity is for how long a client that did not connect keeps its endpoint; 0:
	// it never does.
	Affinity time.Duration
	// Outside are the frontends besides those of the ClusterIPs, by address, port,
	// protocol. With those they share tiers.
	Outside []Outside
	// HealthCheck is nil where no load balancer is to ask.
	HealthCheck *HealthCheck
	Problems    []Problem

	slices  []*Slice   // of one with a ClusterIP; for Named
	absent  *absentKey // the first of its keys that no node has; nil for none
	besides int        // how much of what it asks for besides ClusterIPs it may have
}

// FrontendView is one frontend with the tiers that may answer it. No tier
// means: refuse.
type FrontendView struct {
	Frontend
	Path     Path // what serves it
	PortName string
	Tiers    []Tier
	More     bool // than Tiers have may answer, for the Service has too many endpoints for its ports
	// Silent asks for the packet to be dropped where no tier is left: kube-proxy's
	// answer to internalTrafficPolicy Local where other nodes have an endpoint that
	// can be used. Where none has, the packet is refused as ever.
	Silent bool
	// Serving are endpoints of UDP, by the kernel, that flows may go on with.
	Serving []netip.AddrPort
}

// Tier is the endpoints of one topology key; an earlier tier is preferred as
// long as anything in it answers.
type Tier struct {
	Key string // label key, "*", or "" where the Service has no keys
	// Terminating: none of them is ready; they terminate, and still serve.
	Terminating bool
	Endpoints   []Target
}

// Target is one endpoint with the port that the frontend leads to.
type Target struct {
	Addr netip.AddrPort
	Node string
	// Dead: its node is dead by the vote of its unit. One that is not is in a tier of the
	// frontend that is as near, and comes before it, in whichever it is.
	Dead bool
}

// Sorted returns the Services of the view by namespace and name.
func (v *View) Sorted() []*ServiceView {
	list := make([]*ServiceView, 0, v.Services.Len())
	for _, s := range v.Services.All() {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *ServiceView) int { return a.Key.Compare(b.Key) })
	return list
}

// AllProblems returns every Problem of the view, in order of the Services.
func (v *View) AllProblems() []Problem {
	list := slices.Clone(v.Problems)
	for _, s := range v.Sorted() {
		list = append(list, s.Problems...)
	}
	return list
}
