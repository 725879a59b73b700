package plan

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/gridmesh/gridmesh/topology"
)

// Kernel is what the operator chose for the kernel path of one node.
type Kernel struct {
	// NodeIPs are the node's primary addresses: node ports are served there. Empty:
	// those by which it is known, or its default routes leave.
	NodeIPs []netip.Addr
	// NodePortAddresses are ranges: node ports are served at the node's
	// addresses within them instead. Empty: primary.
	NodePortAddresses []netip.Prefix
}

// NodePorts are the addresses at which node ports are served: all are those of
// the node. The loopback's never are.
func (k *Kernel) NodePorts(all []netip.Addr) (list []netip.Addr) {
	if len(k.NodePortAddresses) == 0 {
		all = k.NodeIPs
	}
	for _, ip := range all {
		ip = ip.Unmap().WithZone("")
		if len(k.NodePortAddresses) > 0 && !Within(k.NodePortAddresses, ip) {
			continue
		}
		if ip.IsGlobalUnicast() {
			list = append(list, ip)
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}

// KernelFrontend is a frontend with who may answer it, and on which terms. One
// of a node port has the unspecified address of its family.
type KernelFrontend struct {
	topology.Frontend
	// Tiers are the endpoints, nearest first; those of the first tier that has
	// any answer. None: refuse.
	Tiers [][]netip.AddrPort
	// Silent drops what it has no endpoint for.
	Silent bool
	// Serving are endpoints besides those of Tiers that still serve: UDP flows
	// to them live on.
	Serving []netip.AddrPort
	// Affinity is for how long a client keeps its endpoint; 0: it does not.
	Affinity time.Duration
	// Session names what shares that memory: the Service and its port.
	Session string
	// Crowd says where clients from elsewhere are remembered, of whom there may be many.
	Crowd Crowd
	// Here says that Tiers are of this node alone, by internalTrafficPolicy: Local.
	// What a client keeps elsewhere, where others may answer too, is not kept here.
	Here bool
	// Outside is nil for a ClusterIP's.
	Outside *KernelOutside
}

// Crowd is which memory of a session clients from elsewhere are in.
type Crowd int

// The places of a crowd.
const (
	NoCrowd       Crowd = iota // the Service has no address outside of the ClusterIPs
	CrowdAnywhere              // all endpoints may answer them
	CrowdHere                  // those of this node alone: externalTrafficPolicy is Local
)

// KernelOutside are the terms of a frontend outside of the ClusterIPs.
type KernelOutside struct {
	// Local is externalTrafficPolicy: Local. Clients from elsewhere get
	// LocalTiers and keep their source; all others, and everybody where it is
	// not Local, get Tiers.
	Local      bool
	LocalTiers [][]netip.AddrPort
	// Silent drops what LocalTiers have no endpoint for.
	Silent bool
	// Sources are who may dial. None: everybody.
	Sources []netip.Prefix
}

// Pick is what becomes of a connection: it goes to one of so many endpoints.
// The kernel has one chain for each Pick in use, and none for a Service.
type Pick struct {
	IPv6   bool
	Near   bool // among the endpoints of this node, for clients from elsewhere
	Among  int  // 0: refuse
	Silent bool // with none: drop instead
	// Sticky is for how many seconds a client keeps its endpoint; 0: it does not, and there
	// is no session.
	Sticky  uint32
	Session uint64
	Many    bool
}

func (p Pick) compare(o Pick) int {
	return cmp.Or(compareBool(p.IPv6, o.IPv6), compareBool(p.Near, o.Near), cmp.Compare(p.Among, o.Among), cmp.Compare(p.Sticky, o.Sticky),
		cmp.Compare(p.Session, o.Session), compareBool(p.Many, o.Many))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// NearSlot is the number of the first slot of the endpoints of this node.
const NearSlot = 1 << 16

// mostAmong bounds the endpoints of one frontend.
const mostAmong = NearSlot - 1

// mostSticky bounds an affinity, as Kubernetes does: a day.
const mostSticky = 24 * time.Hour

// Elements of the sets and maps of the kernel path.
type (
	// Front says what becomes of new connections to a frontend.
	Front struct {
		Frontend topology.Frontend
		Pick     Pick
	}
	// Slot is one of the endpoints of a frontend, by number.
	Slot struct {
		Frontend topology.Frontend
		Number   uint32
		Endpoint netip.AddrPort
	}
	// Policy tells frontends outside of the ClusterIPs apart.
	Policy struct {
		Frontend topology.Frontend
		Local    bool
	}
	// Limit says who may dial a frontend that not everybody may.
	Limit struct {
		Frontend topology.Frontend
		List     List
	}
	// Name is what a session calls the endpoint of a slot.
	Name struct {
		Frontend topology.Frontend
		Number   uint32
		ID       uint32
	}
	// End is the endpoint of that name: what a client of the frontend may keep.
	End struct {
		Frontend topology.Frontend
		ID       uint32
		Endpoint netip.AddrPort
	}
)

// KernelElements are what the sets and maps of the kernel path hold.
type KernelElements struct {
	Slots    []Slot
	Names    []Name              // with affinity
	Ends     []End               // with affinity
	Selves   []topology.Frontend // of Limits, those that may be dialled with their own address, too
	Limits   []Limit
	Loops    []netip.Addr // pods of this node that may meet themselves
	Policies []Policy
	Nears    []Front // for clients from elsewhere where the policy is Local
	Fronts   []Front
}

// Len is the number of all.
func (e *KernelElements) Len() int {
	return len(e.Slots) + len(e.Names) + len(e.Ends) + len(e.Selves) + len(e.Limits) + len(e.Loops) + len(e.Policies) + len(e.Nears) + len(e.Fronts)
}

// KernelChange leads from one plan of the kernel path to the next. What elements it takes is
// told part by part: there may be a hundred thousand of them.
type KernelChange struct {
	moves              []move
	written            map[string]int // elements by Service, of the parts that were taken
	AddLoops, DelLoops []netip.Addr
	AddPicks, DelPicks []Pick
	AddLists, DelLists []Ranges
	// UDP are the frontends of UDP that changed: flows of theirs that are stale
	// are to be forgotten.
	UDP UDPServing
}

// Written is how many elements each Service had in the parts that were taken.
func (c *KernelChange) Written() map[string]int { return c.written }

// Empty reports whether there is nothing to write.
func (c *KernelChange) Empty() bool {
	return len(c.moves)+len(c.AddLoops)+len(c.DelLoops)+len(c.AddPicks)+len(c.DelPicks)+len(c.AddLists)+len(c.DelLists) == 0
}
