package rules

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/gridmesh/gridmesh/capture/plan"
	"github.com/gridmesh/gridmesh/topology"
)

// Tracing is a walk in words, for people.
type Tracing struct {
	Walk
	Steps    []string
	Cluster  string // the cluster that Envoy's listener names
	KeepsSrc bool   // the endpoint sees the client's address, of several each but Itself
	// Itself is the endpoint that is the client, where that alone does not see its address.
	Itself netip.AddrPort
}

// Question is what is traced: the first packet of a connection.
type Question struct {
	Client netip.Addr
	To     topology.Frontend
	ToNode bool // To.Addr is an address of this node
	// Listens says which UDP frontends Envoy has a listener for, which they need: not
	// every one that is served has one.
	Listens func(topology.Frontend) bool
	// Absent: the kernel path gets the new connections that are Envoy's. Else Envoy runs.
	Absent bool
}

// Trace walks a packet through the table of the capture, and that of the kernel path
// where k is not nil.
func Trace(cfg plan.Config, p *plan.Plan, k *KernelState, q Question) Tracing {
	client, to := q.Client, q.To
	walk := func(chosen int) Walk {
		return Inet(cfg).WalkWith(p, k, Packet{
			Src: client, To: to, ToNode: q.ToNode, Absent: q.Absent, Chosen: chosen,
			// Pods of the node count as on a bridge.
			Bridged: cfg.KeepBridgeNetfilter && cfg.KeepsSource(client),
			Awaited: to.Protocol == topology.UDP && q.Listens(to),
		})
	}
	t := Tracing{Walk: walk(0)}
	say := func(format string, args ...any) { t.Steps = append(t.Steps, fmt.Sprintf(format, args...)) }
	family := FamilyOf(to.Addr)
	if t.ByKernel() {
		t.meetsItself(walk)
		t.translated(cfg, client, to, say)
		return t
	}
	switch t.Fate {
	case Dropped:
		say("set %s holds %s: internalTrafficPolicy Local without a local endpoint", Silent.For(family), to)
	case ToEnvoy:
		say("set %s holds %s", Serve.For(family), to)
		t.delivered(cfg, client, to, say)
	case Refused:
		if slices.Contains(t.Found, Serve.For(family)) {
			say("set %s holds %s, and Envoy has no listener for it: UDP is served for Services with topologyKeys, as far as a node's listeners go", Serve.For(family), to)
			return t
		}
		say("set %s does not hold %s: no endpoint this node may use, or no such port", Serve.For(family), to)
		say("guard: %s is an address of Services", to.Addr)
	default:
		say("%s is no address of a Service", to.Addr)
	}
	return t
}

// delivered says how the packet comes to which listener.
func (t *Tracing) delivered(cfg plan.Config, client netip.Addr, to topology.Frontend, say func(string, ...any)) {
	if to.Protocol == topology.UDP {
		t.Cluster = to.String()
		say("mark %#x, route table %d: delivered to Envoy's listener on %s", cfg.Mark, cfg.Table, t.Listener)
		return
	}
	t.Cluster = to.AddrPort().String()
	port := t.Listener.Port()
	t.KeepsSrc = port == cfg.Ports.Keep() || port == cfg.Ports.RedirectKeep()
	if t.KeepsSrc {
		say("%s is a pod of this node: its address is kept", client)
	} else {
		say("%s is no pod of this node: Envoy dials with the node's address", client)
	}
	if t.Packet.To != to {
		say("redirect to port %d of its bridge, whose netfilter stays on (on a routed pod network: tproxy)", port)
	} else {
		say("tproxy to %s, mark %#x", t.Listener, cfg.Mark)
	}
}

// ByKernel reports whether the kernel path decides on the packet.
func (t *Tracing) ByKernel() bool {
	return t.in(Front) || t.in(Near) || t.in(Limited)
}

// Shut reports whether the client is none of those that may dial.
func (t *Tracing) Shut() bool { return t.in(Limited) && !t.in(Ranges) && !t.in(Allowed) }

// FromElsewhere reports whether the endpoints of this node alone may answer the client:
// externalTrafficPolicy is Local.
func (t *Tracing) FromElsewhere() bool { return t.in(Near) }

// in reports whether the packet was found in a set, of whichever family.
func (t *Tracing) in(set SetName) bool {
	return slices.Contains(t.Found, set.For(IPv4)) || slices.Contains(t.Found, set.For(IPv6))
}

// meetsItself has the walk to an endpoint that is not the client, where there is one, and
// finds out whether to the client itself it is another.
func (t *Tracing) meetsItself(walk func(chosen int) Walk) {
	own := slices.IndexFunc(t.Ends, func(end netip.AddrPort) bool { return end.Addr() == t.Packet.Src })
	if own < 0 {
		return
	}
	if other := slices.IndexFunc(t.Ends, func(end netip.AddrPort) bool { return end.Addr() != t.Packet.Src }); other > 0 {
		t.Walk = walk(other)
	}
	if walk(own).Masqueraded && (!t.Masqueraded || t.Packet.To.Addr == t.Packet.Src) {
		t.Itself = t.Ends[own]
	}
}

// translated says what the kernel path makes of the packet.
func (t *Tracing) translated(cfg plan.Config, client netip.Addr, to topology.Frontend, say func(string, ...any)) {
	for _, set := range []SetName{Limited, Ranges, Allowed, Policy, Near, Front} {
		switch name := set.For(FamilyOf(to.Addr)); {
		case !t.in(set):
		case set == Allowed:
			say("set %s holds %s for %s", name, to, client)
		case set == Ranges:
			say("the ranges that it leads to hold %s", client)
		default:
			say("map %s holds %s", name, to)
		}
	}
	if t.Fate != ToEnd {
		say("the kernel path: nobody may answer this client here")
		return
	}
	say("the kernel path: %s is translated to one of %d endpoints, those of the first tier", to, len(t.Ends))
	switch t.KeepsSrc = !t.Masqueraded; {
	case !t.KeepsSrc && t.Itself.IsValid() && t.Packet.To.AddrPort() == t.Itself: // there is no other
	case t.KeepsSrc && cfg.KeepsSource(client):
		say("%s is a pod of this node: its address is kept", client)
	case t.KeepsSrc:
		say("%s is from elsewhere, and externalTrafficPolicy Local: its address is kept", client)
	default:
		say("its source becomes an address of this node")
	}
	if t.Itself.IsValid() {
		say("to %s, which is the client itself, its source becomes an address of this node", t.Itself)
	}
}
