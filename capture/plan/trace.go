package plan

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/gridmesh/gridmesh/topology"
)

// Verdict is what the kernel does with a packet.
type Verdict string

// The verdicts of Trace.
const (
	ToEnvoy Verdict = "envoy"  // delivered to a listener of Envoy
	Refused Verdict = "refuse" // TCP reset or ICMP port unreachable
	Dropped Verdict = "drop"   // no answer
	Passed  Verdict = "pass"   // none of gridmesh's business
)

// Walk is the way of one packet through the capture.
type Walk struct {
	Verdict  Verdict
	Steps    []string
	Listener netip.AddrPort // where ToEnvoy delivers
	Cluster  string         // the cluster that the listener names
	KeepsSrc bool           // Envoy dials on with the client's address
}

// Trace walks the first packet of a connection from a client to a frontend.
func (p *Plan) Trace(cfg Config, client netip.Addr, to topology.Frontend) Walk {
	w := Walk{}
	say := func(format string, args ...any) { w.Steps = append(w.Steps, fmt.Sprintf(format, args...)) }
	key := "serve" + family(to.Addr)
	switch {
	case slices.Contains(p.Silent, to):
		say("set silent%s holds %s: internalTrafficPolicy Local without a local endpoint", family(to.Addr), to)
		w.Verdict = Dropped
	case slices.Contains(p.Serve, to):
		say("set %s holds %s", key, to)
		w.Verdict, w.Cluster = ToEnvoy, to.AddrPort().String()
		if to.Protocol == topology.UDP {
			w.Listener, w.Cluster = to.AddrPort(), to.String()
			say("mark %#x, route table %d: delivered to Envoy's listener on %s", cfg.Mark, cfg.Table, w.Listener)
			return w
		}
		if cfg.KeepBridgeNetfilter && within(p.Pods, client) {
			w.KeepsSrc = true
			w.Listener = netip.AddrPortFrom(unspecified(to.Addr), cfg.Ports.RedirectKeep())
			say("%s is a pod of this node: its address is kept", client)
			say("redirect to port %d of its bridge, whose netfilter stays on (on a routed pod network: tproxy)", w.Listener.Port())
			return w
		}
		loopback, port := netip.AddrFrom4([4]byte{127, 0, 0, 1}), cfg.Ports.Plain()
		if to.Addr.Is6() {
			loopback = netip.IPv6Loopback()
		}
		if w.KeepsSrc = within(p.Pods, client); w.KeepsSrc {
			port = cfg.Ports.Keep()
			say("%s is a pod of this node: its address is kept", client)
		} else {
			say("%s is no pod of this node: Envoy dials with the node's address", client)
		}
		w.Listener = netip.AddrPortFrom(loopback, port)
		say("tproxy to %s, mark %#x", w.Listener, cfg.Mark)
	case within(p.Guard, to.Addr):
		say("set %s does not hold %s: no endpoint this node may use, or no such port", key, to)
		say("guard: %s is an address of Services", to.Addr)
		w.Verdict = Refused
	default:
		say("%s is no address of a Service", to.Addr)
		w.Verdict = Passed
	}
	return w
}

func unspecified(like netip.Addr) netip.Addr {
	if like.Is6() {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}

func family(ip netip.Addr) string {
	if ip.Is6() {
		return "6"
	}
	return "4"
}
