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
	KeepsSrc bool   // Envoy dials on with the client's address
}

// Trace walks the first packet of a connection from a client to a frontend,
// with Envoy running. Not every UDP frontend that is served has a listener of
// its own, which it needs: listens says which.
func Trace(cfg plan.Config, p *plan.Plan, client netip.Addr, to topology.Frontend, listens func(topology.Frontend) bool) Tracing {
	t := Tracing{Walk: Inet(cfg).Walk(p, Packet{
		Src: client, To: to,
		// Pods of the node count as on a bridge.
		Bridged: cfg.KeepBridgeNetfilter && cfg.KeepsSource(client),
		Awaited: to.Protocol == topology.UDP && listens(to),
	})}
	say := func(format string, args ...any) { t.Steps = append(t.Steps, fmt.Sprintf(format, args...)) }
	family := FamilyOf(to.Addr)
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
